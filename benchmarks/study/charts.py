# SPDX-License-Identifier: Apache-2.0
"""The charts of a study: gains over a reference, sorted; curves of scores with their intervals as bands; heat maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from benchmarks.study.statistics import Versus
from fedqa.evaluation import charts
from fedqa.evaluation.charts import BAND, BLUE, GREY, INK, LOOKS, WIDE, Axis, Chart, Dot, Drawing, Look, Row
from fedqa.evaluation.run_scores import Estimate
from fedqa.evaluation.words import number, shortened, signed


@dataclass(frozen=True)
class Curve:
    """Estimates at places along the axis, counted from 0."""

    label: str
    look: Look
    points: Sequence[tuple[int, Estimate]]


Panels = Mapping[str, Sequence[Curve]]  # by title


# -- gains -------------------------------------------------------------------------------------------------------


def gain_chart(found: Mapping[str, Versus], *, over: str, metric: str, strong: Sequence[str] = ()) -> Chart | None:
    """Differences to a reference with their intervals, the highest first."""
    if not found:
        return None
    ranked = sorted(found.items(), key=lambda item: -item[1].bootstrap.difference)
    tests = [(name, versus.bootstrap) for name, versus in ranked]
    rows = [Row(name, {"personal": Dot(t.difference, t.low, t.high)}, name in strong) for name, t in tests]
    said = "; ".join(f"{name} {signed(test.difference)}" for name, test in tests)
    return charts.chart(
        "gains",
        f"Gain in {metric} over {over}, mean of silos and seeds, with 95 % intervals; right of the line is better.",
        f"Dots with intervals: gain in {metric} over {over}. {said}.",
        _with_zero(charts.dots(rows, x=Axis(f"gain in {metric}"), legend={f"gain over {over}": "personal"})),
    )


def _with_zero(drawing: Drawing) -> Drawing:
    def draw(width: int) -> Figure:
        figure = drawing(width)
        figure.axes[0].axvline(0, color=GREY, linewidth=1.2, zorder=0.9)
        return figure

    return draw


# -- curves ------------------------------------------------------------------------------------------------------


def line_chart(
    name: str, panels: Panels, *, caption: str, x: str, y: str, ticks: Sequence[str], zero: bool = False
) -> Chart:
    """Small charts, a curve with a band for each series. Places are evenly spaced and named by `ticks`.

    Each panel has its own level, but all have the same scale: a slope means the same everywhere. For differences, a
    line stands at `zero`.
    """
    told = "; ".join(
        f"{title}: {', '.join(_told(curve, ticks) for curve in curves)}" for title, curves in panels.items()
    )
    return charts.chart(name, caption, f"Lines: {y} by {x}. {told}.", _curves(panels, x, y, ticks, zero=zero))


def _told(curve: Curve, ticks: Sequence[str]) -> str:
    (first, start), (last, end) = curve.points[0], curve.points[-1]
    return f"{curve.label} {number(start.mean)} at {ticks[first]}, {number(end.mean)} at {ticks[last]}"


def _curves(panels: Panels, x: str, y: str, ticks: Sequence[str], *, zero: bool) -> Drawing:
    ranges = {title: _range(curves, zero) for title, curves in panels.items()}
    tallest = max(high - low for low, high in ranges.values())

    def draw(width: int) -> Figure:
        wide = width == WIDE
        columns = min(len(panels), 3 if wide else 2)
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(width / 96, 0.8 + (1.85 if wide else 1.6) * rows))
        _place(figure, wide)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for i, (ax, (title, curves)) in enumerate(zip(axes, panels.items(), strict=False)):
            _panel(ax, curves, ranges[title], tallest)
            if zero:
                ax.axhline(0, color=GREY, linewidth=1.2, zorder=0.9)
            ax.set_title(shortened(title, 24 if wide else 17), fontweight="bold", pad=5)
            ax.set_xticks(range(len(ticks)), ticks)
            ax.set_xlabel(x if i + columns >= len(panels) else "")
            ax.set_ylabel(y if i % columns == 0 else "")
        for ax in axes[len(panels) :]:
            ax.remove()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper left", ncols=len(handles), borderaxespad=0.2, columnspacing=1.4)
        return figure

    return draw


def _place(figure: Figure, wide: bool) -> None:
    """Room for the legend, axis names and numbers, in inches."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left=0.66 / width, right=1 - 0.12 / width, bottom=0.45 / height, top=1 - 0.64 / height)
    figure.subplots_adjust(wspace=0.2 if wide else 0.38, hspace=0.42 if wide else 0.5)


def _panel(ax: Axes, curves: Sequence[Curve], shown: tuple[float, float], tallest: float) -> None:
    for curve in curves:
        at = [place for place, _ in curve.points]
        low, high = zip(*(_ends(estimate) for _, estimate in curve.points), strict=True)
        ax.fill_between(at, low, high, color=LOOKS[curve.look]["color"], alpha=BAND, linewidth=0)
        ax.plot(at, [estimate.mean for _, estimate in curve.points], label=curve.label, **LOOKS[curve.look])
    height = max(tallest, 0.01) * 1.08
    bottom = (sum(shown) - height) / 2
    if shown[0] >= 0:  # what is never below zero is not drawn as if it could be
        bottom = max(bottom, -0.04 * height)
    ax.set_ylim(bottom, bottom + height)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
    ax.grid(axis="y")


def _range(curves: Sequence[Curve], zero: bool) -> tuple[float, float]:
    ends = [end for curve in curves for _, estimate in curve.points for end in _ends(estimate)]
    return (min(0.0, *ends), max(0.0, *ends)) if zero else (min(ends), max(ends))


def _ends(estimate: Estimate) -> tuple[float, float]:
    """The interval; without one, the mean alone."""
    if estimate.low is None or estimate.high is None:
        return estimate.mean, estimate.mean
    return estimate.low, estimate.high


# -- heat maps ---------------------------------------------------------------------------------------------------

DARKEST = 0.7  # opacity; on more, what is written could not be read


@dataclass(frozen=True)
class Heat:
    """A table of shades: at row and column how dark it is, from 0 to 1, and what is written there; None: nothing."""

    rows: Sequence[str]
    columns: Sequence[str]
    shades: Sequence[Sequence[tuple[float, str] | None]]


def heat_chart(name: str, panels: Mapping[str, Heat], *, caption: str, alt: str) -> Chart:
    """Heat maps by title, beside one another on a wide page, below one another on a narrow one."""
    return charts.chart(name, caption, alt, _heats(panels))


def _heats(panels: Mapping[str, Heat]) -> Drawing:
    def draw(width: int) -> Figure:
        wide = width == WIDE
        columns = min(len(panels), 2) if wide else 1
        rows = -(-len(panels) // columns)
        longest = max(len(heat.rows) for heat in panels.values())
        height, names = rows * (1.55 + (0.3 if wide else 0.24) * longest), 1.4 if wide else 1.1  # inches
        figure = Figure(figsize=(width / 96, height))
        figure.subplots_adjust(left=names * 96 / width, right=0.99, bottom=1.15 / height, top=1 - 0.32 / height)
        # Names of rows and columns stand between the panels; the space there is told in widths and heights of these.
        inner = (0.99 * width / 96 - columns * names) / columns, (height - rows * 1.47) / rows
        figure.subplots_adjust(wspace=names / inner[0], hspace=1.47 / inner[1])
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for ax, (title, heat) in zip(axes, panels.items(), strict=False):
            _heat(ax, heat, 16 if wide else 13, small=not wide)
            ax.set_title(title, fontweight="bold", pad=5)
        for ax in axes[len(panels) :]:
            ax.remove()
        return figure

    return draw


def _heat(ax: Axes, heat: Heat, most: int, *, small: bool) -> None:
    for y, row in enumerate(heat.shades):
        for x, cell in enumerate(row):
            if cell is not None:
                shade, told = cell
                ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=BLUE, alpha=DARKEST * shade, linewidth=0))
                ax.text(x, y, told, ha="center", va="center", fontsize=5.5 if small else 7, color=INK)
    ax.set_xlim(-0.5, len(heat.columns) - 0.5)
    ax.set_ylim(len(heat.rows) - 0.5, -0.5)
    ax.set_xticks(range(len(heat.columns)), [shortened(column, most) for column in heat.columns], rotation=90)
    ax.set_yticks(range(len(heat.rows)), [shortened(row, most) for row in heat.rows])
    ax.tick_params(labelsize=6.5 if small else 8)
