# SPDX-License-Identifier: Apache-2.0
"""Files people upload become texts whose paragraphs are passages: text, Markdown, HTML, PDF and Word."""

from fedqa.intake.intake import extract
from fedqa.intake.names import safe_name
from fedqa.intake.records import DEFAULT_LIMITS, Extracted, IntakeError, Kind, Limits

__all__ = ["DEFAULT_LIMITS", "Extracted", "IntakeError", "Kind", "Limits", "extract", "safe_name"]
