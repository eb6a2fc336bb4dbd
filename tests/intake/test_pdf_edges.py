# SPDX-License-Identifier: Apache-2.0
"""What is repeated at the edges of pages goes; what only looks alike stays."""

from collections.abc import Sequence

from fedqa.intake.pdf_edges import listed, repeated
from fedqa.intake.pdf_pieces import Cell, Printed


def pages(*texts: Sequence[str]) -> list[list[Printed]]:
    """Pages of lines, the first of each at the same height and the others 20 points apart."""
    return [
        [
            Printed(number, 800 - 20 * k, 60, 300, 11, False, text, (Cell(60, 300, text),), 800 - 20 * k)
            for k, text in enumerate(lines)
        ]
        for number, lines in enumerate(texts, start=1)
    ]


def gone(*texts: Sequence[str]) -> list[str]:
    return [line.text for line in repeated(pages(*texts))]


BODY = ["one is here", "two is here", "three is here", "four is here"]


def own(page: int) -> list[str]:
    return [f"{text}, {chr(96 + page)}" for text in BODY]


def test_a_header_goes_from_every_page() -> None:
    assert gone(["Hospital", *own(1)], ["Hospital", *own(2)]) == ["Hospital", "Hospital"]


def test_a_footer_with_the_number_of_the_page_goes() -> None:
    assert gone([*own(1), "Leaflet 7, page 3"], [*own(2), "Leaflet 7, page 4"]) == [
        "Leaflet 7, page 3",
        "Leaflet 7, page 4",
    ]


def test_a_number_that_does_not_count_with_the_pages_stays() -> None:
    assert gone([*own(1), "Dose: 5 mg"], [*own(2), "Dose: 10 mg"], [*own(3), "Dose: 15 mg"]) == []


def test_numbers_alone_go_if_they_count_with_the_pages_wherever_those_are() -> None:
    assert gone([*own(1), "12"], own(2), own(3), own(4), [*own(5), "16"]) == ["12", "16"]
    assert gone([*own(1), "12"], [*own(2), "40"]) == []


def test_the_number_of_a_single_page_goes() -> None:
    assert gone([*own(1), "Page 1 of 1"]) == ["Page 1 of 1"]
    assert gone([*own(1), "- 1 -"]) == ["- 1 -"]
    assert gone([*own(1), "iv"]) == ["iv"]
    assert gone([*own(1), "2024"]) == []


def test_left_and_right_pages_and_chapters_have_headers_of_their_own() -> None:
    texts = [
        ["Left", *own(1)],
        ["Right", *own(2)],
        ["Left", *own(3)],
        ["Right", *own(4)],
        ["Left", *own(5)],
        ["Right", *own(6)],
    ]
    assert gone(*texts) == ["Left", "Right"] * 3


def test_a_heading_that_begins_two_of_many_pages_stays() -> None:
    assert gone(["Summary", *own(1)], own(2), own(3), own(4), ["Summary", *own(5)], own(6)) == []


def test_a_line_inside_a_page_stays_even_if_it_is_the_same_on_every_page() -> None:
    same = [[f"top {chr(96 + k)}", "Always here", *own(k)] for k in range(1, 6)]
    assert gone(*same) == []


def test_a_page_of_one_line_is_looked_at_once() -> None:
    assert gone(["Hospital"], ["Hospital"]) == ["Hospital", "Hospital"]


def test_what_went_is_listed_once_and_without_numbers() -> None:
    lines = repeated(pages(["Hospital", *own(1), "1"], ["Hospital", *own(2), "2"]))
    assert listed(lines) == "“Hospital”, “#”"
