# SPDX-License-Identifier: Apache-2.0
"""The silo's page: people ask, see the evidence, correct, add documents; and the same as a REST API."""
