# SPDX-License-Identifier: Apache-2.0
"""A silo's page in service: its settings, what is trained from it, and the process that serves it."""
