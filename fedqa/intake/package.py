# SPDX-License-Identifier: Apache-2.0
"""The parts of a DOCX, which is a ZIP archive of XML files: unpacked within limits and parsed without entities.

A small archive can unpack to gigabytes. Its directory is checked before anything is unpacked, and as a directory can
lie, what really comes out is counted too. Only the few parts that hold text are unpacked; pictures and archives inside
the archive never are.
"""

import zlib
from io import BytesIO
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile, ZipInfo

from fedqa.intake.records import ACCEPTED, IntakeError, Limits

_ENTRIES = 5_000
_DEPTH = 500  # elements inside one another
_PIECE = 65_536
_SMALL = 100_000  # bytes: below this, no ratio is suspicious
_SAVE_AGAIN = "open it in Word or LibreOffice, save it again as .docx and upload that"
_BOMB = "it would unpack to far more than a document of its size holds"
_RELATION = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_OTHERS = {  # a part that only they have: what they are
    "word/document.xml": "a Word document of another variant (strict Open XML)",
    "xl/workbook.xml": "an Excel workbook",
    "ppt/presentation.xml": "a PowerPoint presentation",
    "mimetype": "an OpenDocument or EPUB file",
}


class Package:
    """A DOCX whose directory has been checked."""

    def __init__(self, content: bytes, limits: Limits) -> None:
        self.limits = limits
        self.left = limits.unpacked_bytes  # bytes that may still be unpacked
        try:
            self.archive = ZipFile(BytesIO(content))
        except (BadZipFile, OSError, ValueError, NotImplementedError):
            raise IntakeError("it is damaged: the parts in it cannot be listed", _SAVE_AGAIN) from None
        self.entries = self._checked()

    def part(self, name: str) -> ElementTree.Element | None:
        """A part as a tree; None if there is no such part."""
        entry = self.entries.get(name)
        return None if entry is None else self._parsed(entry)

    def related(self, part: str, kind: str) -> str:
        """The name of the part that another one refers to as its `kind`; of the package itself if `part` is empty."""
        folder, _, name = part.rpartition("/")
        relations = self.part(f"{folder}/_rels/{name}.rels".lstrip("/"))
        for relation in () if relations is None else relations.iter(_RELATION):
            if relation.get("Type", "").endswith(f"/{kind}") and relation.get("TargetMode") != "External":
                target = relation.get("Target", "")
                return target.lstrip("/") if target.startswith("/") or not folder else f"{folder}/{target}"
        return ""

    def _checked(self) -> dict[str, ZipInfo]:
        infos = self.archive.infolist()
        entries = {info.filename: info for info in infos}
        if len(infos) > _ENTRIES or sum(info.file_size for info in infos) > self.limits.unpacked_bytes:
            raise IntakeError(_BOMB, _SAVE_AGAIN)
        if len(entries) < len(infos):
            raise IntakeError("it is damaged: two parts in it have the same name", _SAVE_AGAIN)
        return entries

    def _grows_too_much(self, unpacked: int, packed: int) -> bool:
        return unpacked > _SMALL and unpacked > self.limits.ratio * packed

    def _parsed(self, entry: ZipInfo) -> ElementTree.Element:
        if self._grows_too_much(entry.file_size, entry.compress_size):
            raise IntakeError(_BOMB, _SAVE_AGAIN)
        parser = ElementTree.XMLParser(target=_Tree())
        unpacked = 0
        try:
            with self.archive.open(entry) as stream:
                while piece := stream.read(_PIECE):
                    unpacked += len(piece)
                    self.left -= len(piece)
                    if self.left < 0 or self._grows_too_much(unpacked, entry.compress_size):
                        raise IntakeError(_BOMB, _SAVE_AGAIN)
                    parser.feed(piece)
            root: ElementTree.Element = parser.close()
        except (BadZipFile, ElementTree.ParseError, zlib.error, EOFError, NotImplementedError, RuntimeError):
            raise IntakeError("it is damaged: a part of it cannot be read", _SAVE_AGAIN) from None
        return root


class _Tree(ElementTree.TreeBuilder):
    """Builds a tree and refuses a DTD, from which alone entities come; no program writes one into a DOCX."""

    depth = 0

    def doctype(self, name: str, public: str, system: str) -> None:
        raise IntakeError("it declares XML entities, which no Word document does", _SAVE_AGAIN)

    def start(self, tag: str, attrs: dict[str, str], /) -> ElementTree.Element:
        self.depth += 1
        if self.depth > _DEPTH:
            raise IntakeError("its parts are nested too deeply", _SAVE_AGAIN)
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> ElementTree.Element:
        self.depth -= 1
        return super().end(tag)


def other_kind(package: Package) -> IntakeError:
    """The error for an archive that is no DOCX."""
    what = next((what for part, what in _OTHERS.items() if part in package.entries), "a ZIP archive")
    remedy = "unpack it and upload the documents in it" if what == "a ZIP archive" else "save it as PDF or .docx"
    return IntakeError(f"it is {what}; {ACCEPTED}", remedy)
