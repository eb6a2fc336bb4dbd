# SPDX-License-Identifier: Apache-2.0
"""The report of the ATC study: tables, figures and sentences made of its outcomes."""
