# SPDX-License-Identifier: Apache-2.0
"""Metrics, significance, results and reports."""
