# SPDX-License-Identifier: Apache-2.0
import re
from xml.etree import ElementTree

import pytest

from fedqa.web.curves import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame, drawing, frame, tick_step

LINES = {"received": [(0.0, 0.2), (1.0, 0.5)], "personal": [(1.0, 0.4), (2.0, 0.6)]}


@pytest.mark.parametrize(("width", "step"), [(0.1, 0.05), (0.4, 0.1), (1.0, 0.5), (0.7, 0.2), (8, 2), (9, 5), (41, 20)])
def test_ticks_are_round_and_at_most_four_apart(width: float, step: float) -> None:
    assert tick_step(width) == pytest.approx(step)


def test_a_frame_holds_all_points_and_ends_at_ticks() -> None:
    found = frame([LINES, {"received": [(2.0, 0.91)], "personal": []}])
    # from 0.2 to 0.91 are 0.71: four steps of 0.2 hold that, from 0.2 to 1
    assert found == Frame(2, pytest.approx(0.2), pytest.approx(1.0), 0.2)  # type: ignore[arg-type]
    assert found.x(0) == LEFT
    assert found.x(2) == WIDTH - RIGHT
    assert found.y(1.0) == pytest.approx(TOP)


def test_a_flat_curve_has_a_frame_and_no_curve_has_none() -> None:
    found = frame([{"received": [(0.0, 0.0)], "personal": []}])
    assert found is not None
    assert found.high > found.low
    assert frame([{"received": []}]) is None


def test_the_drawing_is_well_formed_says_in_words_what_it_shows_and_has_no_style() -> None:
    place = frame([LINES])
    assert place is not None
    svg = drawing('<b onload="x">', LINES, place)
    tree = ElementTree.fromstring(svg)
    assert tree.get("aria-label") == '<b onload="x">: received 0.200 to 0.500; personal 0.400 to 0.600'
    assert [element.get("class") for element in tree.iter("polyline")] == ["line-received", "line-personal"]
    assert [element.findtext("title") for element in tree.iter("circle")] == [
        "received after 0: 0.200",
        "received after 1: 0.500",
    ]
    assert "style" not in svg
    assert "<b" not in svg
    # round 1 of 2 stands in the middle, 0.5 of [0.2, 0.6] three quarters up
    middle, up = (LEFT + WIDTH - RIGHT) / 2, place.y(0.5)
    assert f'points="{LEFT:.1f},{place.y(0.2):.1f} {middle:.1f},{up:.1f}"' in svg
    assert float(re.findall(r'cy="([0-9.]+)"', svg)[0]) <= HEIGHT
