# SPDX-License-Identifier: Apache-2.0
"""What a reader sees of a page is taken, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedqa.intake.html import declared_encoding, read
from fedqa.intake.records import Extracted, IntakeError, Limits


def taken(page: str) -> Extracted:
    return read(page.encode(), Limits())


def text_of(page: str) -> str:
    return taken(page).text


def test_a_page_becomes_title_paragraphs_lists_and_tables() -> None:
    page = """<!DOCTYPE html><html><head><title>Leaflet | Hospital</title><style>p{color:red}</style></head><body>
    <nav><a href="/">Home</a></nav>
    <h1>Having a <em>gastroscopy</em></h1>
    <p>Do <b>not</b> eat
       for six&nbsp;hours.<br>Water is fine.</p>
    <div>Bring:<ul><li>letter<li><p>glasses</p><p>and their case</p><ol start=3><li>three<li>four</ol></ul></div>
    <table><caption>Fasting</caption><thead><tr><th>Food<th>Hours</thead>
    <tr><td>solid<td>6<tr><td>water<td><p>2</p></table>
    <dl><dt>Sedative<dd>A medicine that calms.</dl>
    <pre>keep
    these   lines</pre>
    </body></html>"""
    assert taken(page) == Extracted(
        "Having a gastroscopy",
        "Having a gastroscopy\nDo not eat for six hours.\nWater is fine.\n\n"
        "Bring:\n- letter\n- glasses\n  and their case\n  3. three\n  4. four\n\n"
        "Fasting\nFood | Hours\nsolid | 6\nwater | 2\n\n"
        "Sedative\nA medicine that calms.\n\n"
        "keep\n    these   lines",
        "html",
    )


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>secret <p>",
        '<div style="color: red; DISPLAY : none">secret</div>',
        '<div style="display:/* */none !important;">secret</div>',
        '<span style="visibility:hidden">secret</span>',
        '<div style="display:none"><p>secret</p><table><tr><td>secret<td>secret</table></div>',
        "<dialog>secret</dialog>",
        '<table><tr hidden><td>secret<td>secret</tr><tr><td>a<td style="display:none">secret</table>',
    ],
)
def test_text_that_the_page_hides_is_left_out(hidden: str) -> None:
    assert "secret" not in text_of(f"<p>before</p>{hidden}<p>after</p>")
    assert text_of(f"<p>before</p>{hidden}<p>after</p>").endswith("after")


def test_that_hidden_text_was_left_out_is_noted() -> None:
    assert taken("<p>seen<p hidden>secret").notes == ("Text that the page hides was left out.",)
    assert taken("<p>seen<p hidden> ").notes == ()


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert('bad')</script>",
        "<SCRIPT SRC=//bad.example/x.js></SCRIPT>",
        "<scr<script>ipt>alert('bad')</script>",
        "<img src=x onerror=\"alert('bad')\">",
        "<svg><script>alert('bad')</script><text>bad</text></svg>",
        "<style>body{background:url(javascript:bad)}</style>",
        "<!-- bad --><!--[if IE]>bad<![endif]-->",
        "<iframe srcdoc='<script>bad</script>'>bad</iframe>",
        "<noscript><p>bad</p></noscript><template>bad</template>",
        "<textarea>bad</textarea><select><option>bad</select><button>bad</button>",
        "<math><mtext></mtext></math><object data=bad>bad</object><embed src=bad>",
        "<a href='javascript:bad'></a><form action=bad><input value=bad></form>",
        "<plaintext-bad>",
        "<?php bad ?><![CDATA[bad]]>",
    ],
)
def test_only_text_comes_out_of_hostile_markup(attack: str) -> None:
    text = text_of(f"<p>before</p>{attack}<p>after</p>")
    assert "bad" not in text.replace("ipt>alert('bad')", "")  # what is left of a broken tag is shown by browsers too
    assert text.startswith("before")
    assert text.endswith("after")
    assert "<script" not in text.lower()


def test_text_that_looks_like_markup_stays_text() -> None:
    assert text_of("<p>a &lt;script&gt; tag &amp;amp; more") == "a <script> tag &amp; more"


def test_characters_that_no_text_may_hold_are_replaced() -> None:
    assert text_of("<p>a&#0;b&#x1f;c&#xd800;d&#x202e;e") == "a\ufffdb c\ufffdde"


def test_cells_that_cover_rows_stand_in_each_of_them() -> None:
    page = "<table><tr><th rowspan=2>Morning<td>tea<td>1<tr><td>toast<td>2<tr><td colspan=2>none<td>0</table>"
    assert text_of(page) == "Morning | tea | 1\nMorning | toast | 2\nnone | 0"
    huge = '<table><tr><td rowspan="999999999">a<td colspan="999999999">b<tr><td>c</table>'
    assert text_of(huge) == "a | b\na | c"


def test_a_long_table_with_a_caption_repeats_its_header() -> None:
    rows = "".join(f"<tr><td>drug {k}<td>{'x' * 90}" for k in range(20))
    first, second = text_of(f"<table><caption>Doses<tr><th>Drug<th>Remark{rows}<tr><td> <td></table>").split("\n\n")
    assert first.startswith("Doses\nDrug | Remark\ndrug 0 | ")
    assert second.startswith("Drug | Remark\ndrug ")
    assert second.endswith("x")  # the empty row is gone


def test_tables_that_only_arrange_a_page_are_read_as_its_parts() -> None:
    page = "<table><tr><td><h2>News</h2><p>One.</p><td><ul><li>a</ul><tr><td>Two.</table>"
    assert text_of(page) == "News\nOne.\n\n- a\n\nTwo."
    nested = "<table><tr><td>Left.<td><table><tr><td>a<td>b</table></table>"
    assert text_of(nested) == "Left.\n\na | b"


def test_a_short_bold_paragraph_is_a_heading_and_a_bold_sentence_is_not() -> None:
    assert text_of("<p><b>Opening hours</b></p><p>Nine to five.</p>") == "Opening hours\nNine to five."
    assert text_of("<p><b>Do not drive.</b></p><p>Rest.</p>") == "Do not drive.\n\nRest."


def test_superscripts_stay_superscripts() -> None:
    assert text_of("<p>10<sup>6</sup> m<sup>2</sup>, H<sub>2</sub>O, the 4<sup>th</sup>") == "10⁶ m², H2O, the 4th"


def test_two_line_breaks_separate_paragraphs() -> None:
    assert text_of("one<br>two<br><br>three") == "one\ntwo\n\nthree"


def test_the_main_part_of_a_page_is_taken_if_it_says_enough() -> None:
    main = "The examination takes ten minutes. " * 10
    found = taken(f"<title>T</title><p>Cookies!</p><main><p>{main}</p></main><footer>Imprint</footer>")
    assert (found.title, found.text) == ("T", main.strip())
    assert found.notes == ("Only the page's main part was taken.",)
    assert text_of("<p>Text.</p><main></main>") == "Text."


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"<meta charset=windows-1252>", "windows-1252"),
        (b"<META content='text/html; charset=ISO-8859-2' http-equiv=Content-Type>", "ISO-8859-2"),
        (b'<?xml version="1.0" encoding="koi8-r"?><html>', "koi8-r"),
        (b"<!-- <meta charset=utf-7> --><p>", ""),
        (b" " * 5_000 + b"<meta charset=big5>", ""),
    ],
)
def test_a_page_declares_its_encoding_in_its_first_lines(head: bytes, encoding: str) -> None:
    assert declared_encoding(head) == encoding


def test_a_page_is_read_in_the_encoding_that_it_declares() -> None:
    page = '<meta charset="windows-1250"><p>Żółć</p>'
    assert read(page.encode("cp1250"), Limits()).text == "Żółć"
    with pytest.raises(IntakeError, match="it is not UTF-8: byte 0xe9"):
        read("<p>café".encode("latin-1"), Limits())


def test_a_page_nested_a_thousand_deep_is_read_to_its_end_and_a_deeper_one_is_refused() -> None:
    assert text_of("<div>" * 1_000 + "deep" + "</div>" * 1_000 + "<p>after") == "deep\n\nafter"
    with pytest.raises(IntakeError, match="its elements are nested too deeply; save the page as plain text or PDF"):
        taken("<div>" * 100_000 + "deep")


@pytest.mark.parametrize("page", ["<html></html>", "<!-- x -->", "<script>x</script>", " "])
def test_a_page_without_text_gives_an_empty_text(page: str) -> None:
    assert text_of(page) == ""


@settings(derandomize=True, database=None, deadline=None)
@given(st.text(alphabet=st.sampled_from("<>/abpuliotdrh \n'\"=!-&;#x0"), max_size=80))
def test_any_tangle_of_signs_is_read_and_no_element_survives(page: str) -> None:
    assert "\n\n\n" not in text_of(f"<p>x{page}")
