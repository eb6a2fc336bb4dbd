# SPDX-License-Identifier: Apache-2.0
"""Backbones, heads, tags, and the flat view of a model's parameters."""
