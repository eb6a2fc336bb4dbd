# SPDX-License-Identifier: Apache-2.0
"""Names that browsers send become names that can be shown and stored."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedqa.intake.names import LONGEST_NAME, extension, safe_name, title_from


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("leaflet.pdf", "leaflet.pdf"),
        ("Müller & Söhne – Bericht 3.docx", "Müller & Söhne – Bericht 3.docx"),  # noqa: RUF001
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\win.ini", "win.ini"),
        ("C:\\Users\\me\\letter.docx", "letter.docx"),
        ("/srv/data/", "document"),
        ("..", "document"),
        ("", "document"),
        (".htaccess", "htaccess"),
        ("a\x00b\r\nSet-Cookie: x.txt", "a_b Set-Cookie_ x.txt"),
        ("\x1b[31mred.txt", "[31mred.txt"),
        ("photo\u202efdp.exe", "photofdp.exe"),  # shown right to left it would end in .pdf
        ("a\uff0f..\uff0fpasswd", "passwd"),  # full-width slashes
        ('<img src=x onerror="alert(1)">.html', "_img src=x onerror=_alert(1)__.html"),
        ("con.txt", "_con.txt"),
        ("NUL", "_NUL"),
        ("report.pdf. . ", "report.pdf"),
        ("line\nbreak\tand tab.md", "line break and tab.md"),
    ],
)
def test_a_name_loses_paths_control_characters_and_what_file_systems_reserve(sent: str, kept: str) -> None:
    assert safe_name(sent) == kept


def test_a_long_name_is_cut_and_keeps_its_extension() -> None:
    name = safe_name("x" * 500 + ".docx")
    assert len(name) == LONGEST_NAME
    assert name.endswith("x.docx")
    assert safe_name("日" * 500 + ".pdf") == "日" * 65 + ".pdf"  # three bytes each, and 196 are left for them


@settings(derandomize=True, database=None, deadline=None)
@given(st.text())
def test_no_name_is_ever_unsafe_and_making_it_safe_again_changes_nothing(sent: str) -> None:
    name = safe_name(sent)
    assert 0 < len(name.encode()) <= LONGEST_NAME
    assert not name.startswith(".")
    assert not set('/\\<>:"|?*') & set(name)
    assert all(character.isprintable() or ord(character) > 0x9F for character in name)
    assert safe_name(name) == name


def test_the_extension_is_in_lower_case_and_empty_where_there_is_none() -> None:
    assert extension("A/B.PDF") == "pdf"
    assert extension("README") == ""


def test_a_file_without_a_title_is_called_by_its_name_in_words() -> None:
    assert title_from("../patient_leaflet-gastroscopy 3.pdf") == "patient leaflet gastroscopy 3"
    assert title_from("2024-05 – minutes.txt") == "2024 05 – minutes"  # noqa: RUF001
