# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG text, from plain numbers. The same input gives the same bytes.

Every chart is drawn twice, for a wide page and for a phone, because text that shrinks with the picture cannot be read.
Colours are told apart by people who are colour-blind, never carry a meaning alone (line style and marker differ too),
and are exchanged for lighter ones where the reader prefers a dark page: see `dark_rules`.
"""

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedqa.evaluation.words import shortened, size

WIDE, NARROW = 880, 340  # pixels at which a chart is shown as it is drawn
FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif'

INK, SOFT, GRID, PAPER = "#1f2328", "#57606a", "#d9dee3", "#ffffff"
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#007f5f", "#8c959f"
DARK = {  # each colour's counterpart on a dark page
    INK: "#e6edf3",
    SOFT: "#9aa4af",
    GRID: "#343b44",
    PAPER: "#14171c",
    BLUE: "#5db7ee",
    ORANGE: "#ff9255",
    GREEN: "#3ecfa3",
    GREY: "#6e7781",
}
BAND = 0.2  # opacity of what is shaded

Look = Literal["received", "personal", "best", "steps", "quiet", "strong"]
LOOKS: Mapping[Look, Mapping[str, Any]] = {
    "received": {"color": BLUE, "linestyle": (0, (4, 2)), "marker": "o", "markerfacecolor": PAPER},
    "personal": {"color": ORANGE, "linestyle": "-", "marker": "s"},
    "best": {"color": GREEN, "linestyle": ":", "marker": "D"},
    "steps": {"color": ORANGE, "linestyle": "-"},
    "quiet": {"color": GREY, "linestyle": "-", "linewidth": 0.7},
    "strong": {"color": BLUE, "linestyle": "-", "marker": "o"},
}
Point = tuple[float, float]
GAP: Point = (math.nan, math.nan)  # between two pieces of one line
Drawing = Callable[[int], Figure]  # for a width in pixels


@dataclass(frozen=True)
class Chart:
    """A chart in both widths. `alt` says in words what it shows; `name` is that of its file."""

    name: str
    caption: str
    alt: str
    wide: str
    narrow: str


@dataclass(frozen=True)
class Line:
    points: Sequence[Point]
    look: Look


@dataclass(frozen=True)
class Panel:
    """One of several small charts with common axes. The band is a list of x, lowest y, highest y; it ends at a NaN."""

    title: str
    lines: Sequence[Line]
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Dot:
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    label: str
    dots: Mapping[Look, Dot]
    strong: bool = False


@dataclass(frozen=True)
class Axis:
    label: str
    bounds: tuple[float, float] | None = None  # the axis never goes far beyond these
    marks: Sequence[float] = ()  # where a line stands across


SETTINGS: dict[Any, Any] = {  # matplotlib's own names
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # a fixed place: finding one costs a tenth of the time
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
}


def chart(name: str, caption: str, alt: str, draw: Drawing) -> Chart:
    """Draw for both widths."""
    with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": name}), warnings.catch_warnings():
        # The reader's fonts are used, not the one that text is measured with, so what that one lacks does not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        wide, narrow = (_svg(draw(width), f"{name}-{width}", alt) for width in (WIDE, NARROW))
    return Chart(name, caption, alt, wide, narrow)


# -- small multiples ---------------------------------------------------------------------------------------------


def panels(shown: Sequence[Panel], *, x: Axis, y: Axis, legend: Mapping[str, Look], band: str = "") -> Drawing:
    """Panels with common axes; `legend` explains the looks, `band` what is shaded."""
    points = [point for panel in shown for line in panel.lines for point in line.points]

    def draw(width: int) -> Figure:
        columns = min(len(shown), 2 if width == NARROW else 3 if len(shown) % 4 else 4)
        rows = -(-len(shown) // columns)
        figure = _figure(width, 0.46 + (1.9 if width == WIDE else 1.6) * rows)
        axes = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        _margins(figure, left=0.62, right=0.12, bottom=0.42, top=0.66)
        figure.subplots_adjust(wspace=0.1, hspace=0.36 if width == WIDE else 0.5)
        for ax, panel in zip(axes, shown, strict=False):
            _panel(ax, panel, x.marks)
            ax.set_title(shortened(panel.title, 24 if width == WIDE else 17), fontweight="bold", pad=5)
        if y.bounds:
            axes[0].set_ylim(_limits([value for _, value in points], y.bounds))
        _label_outside(axes, len(shown), columns, x.label, y.label)
        _legend(figure, legend, band)
        return figure

    return draw


def _panel(ax: Axes, panel: Panel, marks: Sequence[float]) -> None:
    if panel.band:
        at, low, high = zip(*panel.band, strict=True)
        ax.fill_between(at, low, high, color=ORANGE, alpha=BAND, linewidth=0)
    for line in panel.lines:
        ax.plot([p[0] for p in line.points], [p[1] for p in line.points], clip_on=False, **LOOKS[line.look])
    for place in marks:
        ax.axvline(place, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    _few_ticks(ax)
    ax.grid(axis="y")


def _limits(values: Sequence[float], bounds: tuple[float, float]) -> tuple[float, float]:
    """A little more than the values need, but not beyond the bounds."""
    values = [value for value in values if not math.isnan(value)]
    room = max(0.06 * (max(values) - min(values)), 0.02)
    return max(bounds[0], min(values) - room), min(bounds[1], max(values) + room)


def _label_outside(axes: Sequence[Axes], used: int, columns: int, x: str, y: str) -> None:
    """Axis names at the left and below the lowest panel of each column; places without a panel are removed."""
    for i, ax in enumerate(axes):
        if i >= used:
            ax.remove()
        elif i + columns >= used:
            ax.set_xlabel(x)
            ax.tick_params(labelbottom=True)
        if i < used and i % columns == 0:
            ax.set_ylabel(y)


def _few_ticks(ax: Axes) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))


# -- rows of dots ------------------------------------------------------------------------------------------------


def dots(rows: Sequence[Row], *, x: Axis, legend: Mapping[str, Look]) -> Drawing:
    """A row a name, in it a dot with its interval for every look in the legend, one below the other."""

    def draw(width: int) -> Figure:
        wide = width == WIDE
        figure = _figure(width, len(rows) * (0.17 * len(legend) + 0.12) + 0.92)
        ax = figure.subplots()
        _margins(figure, left=2.1 if wide else 1.15, right=0.2, bottom=0.42, top=0.42)
        for place, row in enumerate(rows):
            for i, look in enumerate(legend.values()):
                if look in row.dots:
                    _dot(ax, place + (i - (len(legend) - 1) / 2) * 0.24, row.dots[look], look)
        _name_rows(ax, rows, 26 if wide else 14)
        ax.set_xlabel(x.label)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8 if wide else 5, steps=[1, 2, 2.5, 5, 10]))
        if x.bounds:
            low, high = ax.get_xlim()
            room = (high - low) * 0.02  # for half a dot on the edge
            ax.set_xlim(max(x.bounds[0] - room, low), min(x.bounds[1] + room, high))
        _legend(figure, legend, line=False)
        return figure

    return draw


def _dot(ax: Axes, y: float, dot: Dot, look: Look) -> None:
    style = LOOKS[look]
    if dot.low is not None and dot.high is not None:
        ax.plot([dot.low, dot.high], [y, y], color=style["color"], solid_capstyle="round")
    ax.plot([dot.value], [y], **{**style, "markersize": 6, "markeredgewidth": 1.4})


def _name_rows(ax: Axes, rows: Sequence[Row], most: int) -> None:
    ax.set_yticks(range(len(rows)), [shortened(row.label, most) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    for tick, row in zip(ax.get_yticklabels(), rows, strict=True):
        tick.set_color(INK)
        tick.set_fontweight("bold" if row.strong else "normal")
    for edge in range(1, len(rows)):
        ax.axhline(edge - 0.5, color=GRID, linewidth=0.7)
    ax.grid(axis="x")
    ax.spines["left"].set_visible(False)


# -- bytes -------------------------------------------------------------------------------------------------------


def stacked_bytes(rounds: Sequence[int], up: Sequence[int], down: Sequence[int], *, x: Axis) -> Drawing:
    """Bytes so far, those down on top of those up; both are named at their right end."""
    total = [sent + received for sent, received in zip(up, down, strict=True)]

    def draw(width: int) -> Figure:
        figure = _figure(width, 2.5)
        ax = figure.subplots()
        _margins(figure, left=0.75, right=1.3, bottom=0.42, top=0.12)
        _area(ax, rounds, [0] * len(up), up, BLUE, "up")
        _area(ax, rounds, up, total, ORANGE, "down")
        ax.set_xlim(rounds[0], rounds[-1])
        ax.set_ylim(0, max(total[-1], 1) * 1.04)
        _few_ticks(ax)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))
        ax.set_xlabel(x.label)
        ax.grid(axis="y")
        return figure

    return draw


def _area(ax: Axes, x: Sequence[int], low: Sequence[int], high: Sequence[int], colour: str, name: str) -> None:
    ax.fill_between(x, low, high, color=colour, alpha=BAND + 0.1, linewidth=0)
    ax.plot(x, high, color=colour, clip_on=False)
    ax.annotate(
        f"{name} {size(high[-1] - low[-1])}",
        (x[-1], (low[-1] + high[-1]) / 2),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontweight="bold",
        annotation_clip=False,
    )


# -- SVG ---------------------------------------------------------------------------------------------------------


def dark_rules() -> str:
    """CSS that exchanges the colours of charts; to be put in a query for dark pages.

    The selectors name no element around a shape: markers are copies, and a copy has no surroundings.
    """
    return "\n".join(
        f'[style*="{kind}: {light}"] {{ {kind}: {dark} !important }}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )


def as_file(svg: str) -> str:
    """A chart as a file of its own, for a dark page too."""
    style = f"text {{ font-family: {FONTS} }}\n@media (prefers-color-scheme: dark) {{\n{dark_rules()}\n}}"
    namespaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head, rest = svg.removeprefix("<svg").split(">", 1)
    return f"<svg {namespaces}{head}>\n<style>{style}</style>{rest}\n"


def _svg(figure: Figure, name: str, alt: str) -> str:
    """The figure as an element to stand in a page: no header, no address, ids that no other chart has."""
    text = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(text, format="svg", metadata=nothing)
    body = text.getvalue().split("<svg", 1)[1].rstrip()
    body = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"', "", body)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r' font-family: [^;"]*;', "", body)
    body = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-", body)
    alt = escape(re.sub(r"[\x00-\x1f]", " ", alt)).replace(">", "&gt;")
    return f'<svg role="img" aria-label="{alt}"{body}'


def _figure(width: int, height: float) -> Figure:
    return Figure(figsize=(width / 96, height))  # without pyplot: no window, no list of open figures


def _margins(figure: Figure, *, left: float, right: float, bottom: float, top: float) -> None:
    """Room around the axes, in inches."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left=left / width, right=1 - right / width, bottom=bottom / height, top=1 - top / height)


def _legend(figure: Figure, looks: Mapping[str, Look], band: str = "", *, line: bool = True) -> None:
    alone = {} if line else {"linestyle": "none", "markersize": 6, "markeredgewidth": 1.4}
    handles: list[Line2D | Patch] = [
        Line2D([], [], label=name, **{**LOOKS[look], **alone}) for name, look in looks.items()
    ]
    if band:
        handles.append(Patch(facecolor=ORANGE, alpha=BAND, label=band))
    figure.legend(handles=handles, loc="upper left", ncols=len(handles), borderaxespad=0.2, columnspacing=1.4)
