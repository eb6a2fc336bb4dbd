# SPDX-License-Identifier: Apache-2.0
"""What the receiver of a sentence's vector can read from it, if it owns the encoder: the attacks of the leak study."""
