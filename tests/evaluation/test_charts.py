# SPDX-License-Identifier: Apache-2.0
import math
import re
from collections.abc import Callable
from functools import cache
from xml.etree import ElementTree

import pytest

from fedqa.evaluation import charts
from fedqa.evaluation.charts import DARK, GAP, Axis, Chart, Dot, Line, Panel, Row

SVG = "{http://www.w3.org/2000/svg}"


@cache
def curves(title: str = "ash", n: int = 2) -> Chart:
    lines = [
        Line([(0, 0.2), (1, 0.4), (2, 0.3)], "received"),
        Line([(1, 0.5), GAP, (2, 0.6)], "personal"),
        Line([(0, 0.1), (2, 0.2)], "quiet"),
    ]
    shown = [Panel(title, lines, [(0, 0.1, 0.3), (1, 0.1, 0.3), (math.nan, 0.1, 0.3)]) for _ in range(n)]
    draw = charts.panels(
        shown,
        x=Axis("rounds", marks=[1]),
        y=Axis("MAP", (0, 1)),
        legend={"received": "received", "personal": "personal"},
        band="range",
    )
    return charts.chart("curves", "A caption.", 'Lines: <ash> & "birch".', draw)


@cache
def rows(label: str = "ash") -> Chart:
    shown = [
        Row(label, {"received": Dot(0.4, 0.2, 0.6), "best": Dot(0.5)}),
        Row("mean", {"best": Dot(1.0, 0.9, 1.0)}, strong=True),
    ]
    draw = charts.dots(shown, x=Axis("MAP", (0, 1)), legend={"received": "received", "best": "best"})
    return charts.chart("rows", "A caption.", "Dots.", draw)


@cache
def volume() -> Chart:
    draw = charts.stacked_bytes([0, 1, 2], [0, 1000, 2000], [0, 3000, 6000], x=Axis("rounds"))
    return charts.chart("volume", "A caption.", "Areas.", draw)


EVERY = pytest.mark.parametrize("make", [curves, rows, volume])


def words(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(charts.as_file(svg)).iter(f"{SVG}text")]


@EVERY
def test_the_same_numbers_give_the_same_bytes(make: Callable[[], Chart]) -> None:
    first = make()
    curves.cache_clear(), rows.cache_clear(), volume.cache_clear()
    assert make() == first and make() is not first


@EVERY
def test_a_chart_in_a_page_names_no_address_and_loads_nothing(make: Callable[[], Chart]) -> None:
    for svg in (make().wide, make().narrow):
        assert svg.startswith('<svg role="img" aria-label="')
        assert not re.search(r"https?:|<script|<image|<!DOCTYPE|<style|<\?xml", svg)


@EVERY
def test_ids_differ_between_charts_and_every_reference_has_its_target(make: Callable[[], Chart]) -> None:
    chart = make()
    ids = [re.findall(r' id="([^"]+)"', svg) for svg in (chart.wide, chart.narrow)]
    assert len(set(ids[0]) | set(ids[1])) == len(ids[0]) + len(ids[1])
    for svg, known in zip((chart.wide, chart.narrow), ids, strict=True):
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= set(known)


@EVERY
def test_every_colour_has_a_counterpart_on_a_dark_page(make: Callable[[], Chart]) -> None:
    used = set(re.findall(r"#[0-9a-f]{6}\b", re.sub(r'(id|href)="[^"]*"|url\([^)]*\)', "", make().wide)))
    assert used and used <= DARK.keys()
    for light in used:
        assert f'[style*="stroke: {light}"] {{ stroke: {DARK[light]} !important }}' in charts.dark_rules()


@EVERY
def test_a_file_is_well_formed_and_carries_its_own_dark_colours(make: Callable[[], Chart]) -> None:
    text = charts.as_file(make().wide)
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")


@EVERY
def test_text_is_as_large_on_a_phone_as_on_a_wide_page(make: Callable[[], Chart]) -> None:
    chart = make()
    for svg, width in ((chart.wide, charts.WIDE), (chart.narrow, charts.NARROW)):
        assert f'width="{width * 0.75:g}pt"' in svg  # a pixel is three quarters of a point
        assert set(re.findall(r"font(?:-size)?: (?:bold )?([\d.]+)px", svg)) <= {"9", "9.5"}


def test_names_are_shown_as_they_are_written() -> None:
    assert "a$x$ <b> & \\frac" in words(curves("a$x$ <b> & \\frac").wide)
    assert "$5 < 6$" in words(rows("$5 < 6$").wide)


def test_names_in_other_scripts_need_no_font_here() -> None:
    assert "病院" in words(rows("病院").wide)


def test_long_names_are_cut_to_the_room_there_is() -> None:
    name = "a-silo-with-a-name-that-goes-on-and-on"
    assert "a-silo-with-a-name-that-g…" in words(rows(name).wide)
    assert "a-silo-with-a…" in words(rows(name).narrow)


def test_the_words_for_a_chart_are_escaped() -> None:
    assert 'aria-label="Lines: &lt;ash&gt; &amp; &quot;birch&quot;."' in curves().wide


def test_every_panel_has_its_title_and_the_legend_stands_once() -> None:
    shown = words(curves(n=5).wide)
    assert (shown.count("ash"), shown.count("received"), shown.count("range")) == (5, 1, 1)


def test_bytes_are_named_at_the_end_with_their_size() -> None:
    assert {"up 2.0\u202fkB", "down 6.0\u202fkB"} <= set(words(volume().wide))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_and_lines_stand_out_from_the_page_light_and_dark() -> None:
    for colour, least in ((charts.INK, 7), (charts.SOFT, 4.5), (charts.BLUE, 3), (charts.ORANGE, 3), (charts.GREEN, 3)):
        assert contrast(colour, charts.PAPER) >= least
        assert contrast(DARK[colour], DARK[charts.PAPER]) >= least
