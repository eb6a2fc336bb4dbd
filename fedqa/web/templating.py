# SPDX-License-Identifier: Apache-2.0
"""The templates' environment: everything is escaped, and a name a template does not know is an error."""

from datetime import UTC, datetime
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from fedqa.evaluation import words


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("fedqa.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(exact=exact, count=count, moment=moment, day=day, query=query, plural=plural)
    made.filters.update(size=words.size, duration=words.duration, number=words.number, signed=words.signed)
    return made


def exact(text: str) -> Markup:
    """A text that a browser takes in character by character: it would read a carriage return as a line feed."""
    return Markup(str(escape(text)).replace("\r", "&#13;"))


def count(number: int) -> str:
    """12345 → 12 345, with thin spaces that do not break."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def plural(number: int, one: str, many: str = "") -> str:
    """3, "document" → 3 documents."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def moment(at: datetime) -> str:
    """A time for people, in the clock of the machine that shows the page."""
    return f"{_local(at):%-d %B %Y, %H:%M}"


def day(at: datetime) -> str:
    return f"{_local(at):%-d %B %Y}"


def query(values: dict[str, object]) -> str:
    """The query part of an address, without what is empty."""
    return urlencode({name: value for name, value in values.items() if value not in ("", None)})


def _local(at: datetime) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone()
