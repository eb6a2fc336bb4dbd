# SPDX-License-Identifier: Apache-2.0
"""Markdown as the page it describes, in plain text."""

from fedqa.intake.markdown import read
from fedqa.intake.records import Extracted, Limits


def taken(text: str) -> Extracted:
    return read(text.encode(), Limits())


def test_markup_is_gone_and_its_structure_stays() -> None:
    found = taken("""\
# Having a *gastroscopy*

Do **not** eat for `six` hours. See [the page](http://x.example/a?b "title") and ![a camera](tube.png).
Water is fine.

## What to bring

1. this letter
2. your glasses
   - reading glasses

| Food  | Hours |
|-------|------:|
| solid | 6     |
| water | 2     |

> Quoted advice.

```python
print("kept")
```
""")
    assert found == Extracted(
        "Having a gastroscopy",
        "Having a gastroscopy\nDo not eat for six hours. See the page and . Water is fine.\n\n"
        "What to bring\n1. this letter\n2. your glasses\n  - reading glasses\n\n"
        "Food | Hours\nsolid | 6\nwater | 2\n\n"
        "Quoted advice.\n\n"
        'print("kept")',
        "markdown",
    )


def test_html_inside_markdown_is_text_only() -> None:
    found = taken("""\
<!-- a comment -->
<script>alert("block")</script>

Before <script>alert("inline")</script><b onclick="alert(1)">bold</b> after<br>the break.

<div hidden>hidden</div>

[click](javascript:alert(2)) and a < b & c.
""")
    assert found.text == "Before bold after\nthe break.\n\nclick and a < b & c."
    assert found.notes == ("Text that the page hides was left out.",)


def test_front_matter_gives_the_title_and_is_not_text() -> None:
    found = taken('---\ntitle: "Visiting hours"\ntags: [ward]\n---\nFrom two to eight.\n')
    assert (found.title, found.text) == ("Visiting hours", "From two to eight.")


def test_a_rule_at_the_beginning_is_no_front_matter() -> None:
    assert taken("---\n\nText.\n").text == "Text."


def test_brackets_without_end_are_text_and_quotations_without_end_are_nothing() -> None:
    assert taken("[" * 1_000 + "end").text.endswith("[[end")
    assert taken("> " * 50 + "deep").text == "deep"
    assert taken("> " * 5_000 + "too deep").text == ""
