# SPDX-License-Identifier: Apache-2.0
"""The report of the Lorar study: tables and sentences made of its outcomes."""
