# SPDX-License-Identifier: Apache-2.0
"""Curves over rounds as SVG elements to stand in a page: drawn here, coloured by the page's own style sheet.

The page forbids styles inside elements, so every shape has a class, and `rooms.css` says what that looks like. Lines
differ by dash and marker too: colour alone says nothing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from fedqa.evaluation.words import number

WIDTH, HEIGHT = 300, 172
LEFT, RIGHT, TOP, BOTTOM = 38, 10, 10, 24  # room around the plot
POINT = 3  # half a marker
Points = Sequence[tuple[float, float]]  # rounds behind the model, and its score


@dataclass(frozen=True)
class Frame:
    """Where numbers stand on the picture: the same for all curves that are compared."""

    rounds: int
    low: float
    high: float
    step: float  # between the lines of the grid

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / max(1, self.rounds)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.low) / (self.high - self.low)


def frame(curves: Sequence[Mapping[str, Points]]) -> Frame | None:
    """One frame for all curves; None without a point to show."""
    points = [point for lines in curves for line in lines.values() for point in line]
    if not points:
        return None
    low, high = min(value for _, value in points), max(value for _, value in points)
    step = tick_step(max(high - low, 0.1))
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    return Frame(math.ceil(max(at for at, _ in points)), low, high if high > low else low + step, step)


def tick_step(width: float, most: int = 4) -> float:
    """The smallest step of 1, 2 or 5 times a power of ten that needs at most `most` steps."""
    power: float = 10.0 ** math.floor(math.log10(width / most))
    return next(step for step in (power, 2 * power, 5 * power, 10 * power) if width <= step * most * (1 + 1e-9))


def drawing(title: str, lines: Mapping[str, Points], place: Frame) -> Markup:
    """The curves of one silo, by the class of their line."""
    said = "; ".join(f"{name} {number(p[0][1])} to {number(p[-1][1])}" for name, p in lines.items() if p)
    body = "".join([*_grid(place), *(shape for name, points in lines.items() for shape in _line(name, points, place))])
    return Markup('<svg class="curves" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, f"{title}: {said}", Markup(body)
    )


def _grid(place: Frame) -> Iterator[str]:
    for i in range(round((place.high - place.low) / place.step) + 1):
        value = place.low + i * place.step
        y = _short(place.y(value))
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick" x="{LEFT - 5}" y="{y}" dy="0.35em" text-anchor="end">{value:.3g}</text>'
    for at in range(0, place.rounds + 1, max(1, round(tick_step(place.rounds or 1, 6)))):
        x = _short(place.x(at))
        yield f'<text class="tick" x="{x}" y="{HEIGHT - 7}" text-anchor="middle">{at}</text>'


def _line(name: str, points: Points, place: Frame) -> Iterator[str]:
    look = escape(f"line-{name}")
    at = [(_short(place.x(x)), _short(place.y(y))) for x, y in points]
    if len(at) > 1:
        yield f'<polyline class="{look}" points="{" ".join(f"{x},{y}" for x, y in at)}"/>'
    for (x, y), (rounds, value) in zip(at, points, strict=True):
        told = f"<title>{escape(name)} after {rounds:g}: {number(value)}</title>"
        if name == "received":
            yield f'<circle class="{look}" cx="{x}" cy="{y}" r="{POINT}">{told}</circle>'
        else:
            corner = f'x="{_short(float(x) - POINT)}" y="{_short(float(y) - POINT)}"'
            yield f'<rect class="{look}" {corner} width="{2 * POINT}" height="{2 * POINT}">{told}</rect>'


def _short(value: float) -> str:
    return f"{value:.1f}"
