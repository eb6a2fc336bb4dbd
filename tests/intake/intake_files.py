# SPDX-License-Identifier: Apache-2.0
"""Files as people upload them, and as those do who mean no good: written byte by byte."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


class Draw(NamedTuple):
    """Text on a page of 595 by 842 points, measured from the lower left corner."""

    x: float
    y: float
    text: str
    size: float = 11
    font: str = "F1"  # F2 is bold


def pdf(pages: Sequence[Iterable[Draw]], title: str = "") -> bytes:
    """A PDF whose every draw is a text object of its own, as browsers and Word write them."""
    objects = {1: b"<< /Type /Catalog /Pages 2 0 R >>", 3: _font("Helvetica"), 4: _font("Helvetica-Bold")}
    objects[5] = f"<< /Title ({title}) >>".encode()
    kids = []
    for k, page in enumerate(pages):
        number = 10 + 2 * k
        kids.append(f"{number} 0 R")
        objects[number] = page_object(number + 1)
        objects[number + 1] = stream(b"\n".join(map(_drawn, page)))
    objects[2] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>".encode()
    return pdf_of(objects, b"/Info 5 0 R" if title else b"")


def page_object(contents: int) -> bytes:
    fonts = "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >>"
    return f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] {fonts} /Contents {contents} 0 R >>".encode()


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >> stream\n%s\nendstream" % (len(data), entries, data)


def pdf_of(objects: Mapping[int, bytes], trailer: bytes = b"") -> bytes:
    """A PDF of these objects; number 1 is the catalog."""
    content = b"%PDF-1.7\n"
    offsets = {}
    for number, body in sorted(objects.items()):
        offsets[number] = len(content)
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(content)
    size = max(objects) + 1
    rows = [b"%010d 00000 n \n" % offsets[n] if n in offsets else b"0000000000 65535 f \n" for n in range(size)]
    content += b"xref\n0 %d\n%s" % (size, b"".join(rows))
    return content + b"trailer << /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF" % (size, trailer, start)


def wrapped(text: str, y: float, *, width: int = 80, x: float = 60, leading: float = 14) -> list[Draw]:
    """A paragraph broken into lines of at most `width` characters."""
    return [Draw(x, y - k * leading, line) for k, line in enumerate(textwrap.wrap(text, width))]


def _font(name: str) -> bytes:
    return f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()


def _drawn(draw: Draw) -> bytes:
    text = draw.text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    return b"BT /%s %g Tf 1 0 0 1 %g %g Tm (%s) Tj ET" % (draw.font.encode(), draw.size, draw.x, draw.y, text)


def docx(body: str, parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """A DOCX with this inside its `w:body`, and further parts by their names."""
    document = f'<?xml version="1.0"?><w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    return archive(
        {"_rels/.rels": relations(officeDocument="word/document.xml"), "word/document.xml": document}
        | dict(parts or {})
    )


def relations(**targets: str) -> str:
    rows = "".join(
        f'<Relationship Id="{kind}" Type="{OFFICE}/{kind}" Target="{target}"/>' for kind, target in targets.items()
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{rows}</Relationships>'


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return buffer.getvalue()


def paragraph(text: str, properties: str = "") -> str:
    return f'<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'
