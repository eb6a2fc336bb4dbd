# SPDX-License-Identifier: Apache-2.0
"""fedqa: question answering models that several organisations train together without pooling their text."""

__version__ = "0.1.0"
