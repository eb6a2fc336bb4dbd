# SPDX-License-Identifier: Apache-2.0
"""Silos on other machines. Of NVIDIA FLARE only the messaging layer is used, and only in `transport` and `link`."""
