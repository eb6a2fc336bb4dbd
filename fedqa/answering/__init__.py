# SPDX-License-Identifier: Apache-2.0
"""Answers to people's questions from one silo's documents, with evidence and confidence."""
