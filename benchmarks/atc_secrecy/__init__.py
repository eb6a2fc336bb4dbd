# SPDX-License-Identifier: Apache-2.0
"""What a coordinator sees of silos in an ATC training, and how well it guesses their tasks from it."""
