# SPDX-License-Identifier: Apache-2.0
"""The page of a study: a lead, tiles and sections, set once as HTML, once as Markdown; its tables for the terminal too.

The look is that of a run's report: the same style sheet, the same charts. Whatever is printed is escaped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fedqa.evaluation import charts
from fedqa.evaluation.charts import Chart
from fedqa.evaluation.report import Tile, plain_markdown
from fedqa.files import write_text


@dataclass(frozen=True)
class Cell:
    """What stands in a table at one place; the notes are small, a line each."""

    text: str
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Row:
    name: Cell
    cells: Sequence[Cell]
    strong: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: names in the first column, numbers in the others. A folded one is opened by the reader."""

    caption: str
    columns: Sequence[Cell]
    rows: Sequence[Row]
    folded: bool = False


@dataclass(frozen=True)
class Note:
    """A paragraph of small print."""

    text: str


@dataclass(frozen=True)
class FactList:
    label: str
    facts: Sequence[tuple[str, str]]


Block = Grid | Note | FactList | Chart


@dataclass(frozen=True)
class Section:
    """`short` is its name in the list of contents, where the title is too long for it."""

    id: str
    title: str
    blocks: Sequence[Block]
    short: str = ""


@dataclass(frozen=True)
class Page:
    eyebrow: str
    title: str
    lead: Sequence[str]
    tiles: Sequence[Tile]
    sections: Sequence[Section]
    footer: str


def write_page(page: Page, folder: Path) -> Path:
    """Write report.html, report.md and the charts as files; returns the HTML page."""
    for chart in (block for section in page.sections for block in section.blocks if isinstance(block, Chart)):
        write_text(folder / f"{chart.name}.svg", charts.as_file(chart.wide))
    write_text(folder / "report.md", markdown(page))
    write_text(folder / "report.html", html(page))
    return folder / "report.html"


def html(page: Page) -> str:
    style = {"fonts": Markup(charts.FONTS), "dark_charts": Markup(charts.dark_rules())}
    return _template("study.html.j2").render(page=page, **style)


def markdown(page: Page) -> str:
    return _template("study.md.j2").render(page=page)


def terminals(sections: Sequence[Section]) -> list[Table]:
    """The tables of sections that a page shows unfolded."""
    grids = (block for section in sections for block in section.blocks if isinstance(block, Grid))
    return [terminal(grid) for grid in grids if not grid.folded]


def notes_of(texts: Sequence[str]) -> list[Note]:
    """A note for each text that says something."""
    return [Note(text) for text in texts if text]


def terminal(grid: Grid) -> Table:
    """The table for a console, with its notes in a quieter tone; rows are named without theirs, to stay short."""
    table = Table(title=grid.caption, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(grid.columns):
        table.add_column(_told(column), justify="left" if i == 0 else "right")
    for row in grid.rows:
        table.add_row(row.name.text, *map(_told, row.cells), style="bold" if row.strong else "")
    return table


def _told(cell: Cell) -> Text:
    return Text("\n").join([Text(cell.text), *(Text(note, style="not bold dim") for note in cell.notes)])


@cache
def _template(name: str) -> Template:
    is_html = name.endswith(".html.j2")
    own = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(
        loader=ChoiceLoader([own, PackageLoader("fedqa.evaluation")]),
        autoescape=is_html,
        finalize=None if is_html else plain_markdown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["trusted"] = Markup
    environment.tests |= {kind.__name__.lower(): _is(kind) for kind in (Grid, Note, FactList, Chart)}
    return environment.get_template(name)


def _is(kind: type) -> Callable[[object], bool]:
    return lambda block: isinstance(block, kind)
