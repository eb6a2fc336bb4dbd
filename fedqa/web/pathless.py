# SPDX-License-Identifier: Apache-2.0
"""Texts without the ways to files: where these lie is nobody's business on a page."""

import re

_WAY = re.compile(r"(?<![\w.<])(?:[A-Za-z]:|\.{1,2})?[/\\](?:[^\s/\\:;,'\"]+[/\\])*(?=[^\s/\\])")  # to a file


def pathless(text: str) -> str:
    """The text with files named by their last part alone."""
    return _WAY.sub("", text)
