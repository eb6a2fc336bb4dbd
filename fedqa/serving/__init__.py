# SPDX-License-Identifier: Apache-2.0
"""What a silo's page is in service for: its data in the store, its trainings, who approved them, what was learned."""
