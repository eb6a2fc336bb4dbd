# SPDX-License-Identifier: Apache-2.0
"""MedQuAD: question-answer pairs of health institutes, an XML tree with a folder for each, or the zip file of it.

The XML comes from outside: document type declarations are refused, so no entity can be defined; sizes are bounded.
"""

import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from xml.etree import ElementTree

from fedqa.data.door import Refused, fold, shown
from fedqa.data.files import decode, read_bytes
from fedqa.data.records import Collection
from fedqa.data.rows import Row, Rows
from fedqa.errors import ConfigError, DataError, unknown

MAX_MEMBER = 4 * 2**20  # bytes of one XML file; the largest of MedQuAD has 60 kB
MAX_ARCHIVE = 2**30  # bytes of all XML files of an archive, unpacked

Tree = dict[PurePosixPath, Callable[[], bytes]]  # path inside the tree -> what gives its bytes


def read(path: Path, *, sites: tuple[str, ...] = (), encoding: str = "utf-8") -> Collection:
    """Pairs with an answer; the key is the institute. `sites` keeps folders by institute or beginning of their name."""
    rows, unanswered = Rows(), Counter[str]()
    with _open_tree(path) as tree:
        for name in _of_sites(tree, sites, path):
            with rows.door.record(str(name)):
                unanswered[name.parent.name] += _add_file(rows, name, _parse(tree[name](), encoding, str(name)))
    for folder, count in sorted(unanswered.items()):
        if count:
            remedy = 'nothing to mend: keep them out with sites = ["…"] if the list is to be short'
            rows.door.leave_out(folder, f"question-answer pairs without answer text: {count}", remedy)
    return rows.collection(str(path))


def _add_file(rows: Rows, name: PurePosixPath, root: ElementTree.Element) -> int:
    """Add the pairs of one file; the number of pairs without an answer."""
    pairs = list(root.iter("QAPair"))
    if not pairs:
        raise Refused(f"the file's <{root.tag}> holds no <QAPair>", "take it out of the folder")
    institute, title = institute_of(name.parent.name), fold(root.findtext("Focus", ""))
    unanswered = 0
    for number, pair in enumerate(pairs, start=1):
        question, answer = _text(pair, "Question"), _text(pair, "Answer")
        if not answer:
            unanswered += 1
            continue
        with rows.door.record(f"{name} pair {number}"):
            # The ids in the files repeat between files of one folder; the file's name and a number do not.
            id = f"{institute}-{name.stem}-{number}"
            rows.add(Row(id=id, question=question, answer=answer, key=institute, title=title))
    return unanswered


def _text(pair: ElementTree.Element, tag: str) -> str:
    """Folded, so that one answer is one passage."""
    element = pair.find(tag)
    return "" if element is None else fold("".join(element.itertext()))


def institute_of(folder: str) -> str:
    """`6_NINDS_QA` is the folder of NINDS."""
    return re.sub(r"^\d+_|_QA(_XML)?$", "", folder)


def _of_sites(tree: Tree, sites: tuple[str, ...], path: Path) -> list[PurePosixPath]:
    folders = {name.parent.name for name in tree}
    kept = {folder for folder in folders for site in sites if _matches(folder, site)}
    for site in sites:
        if not any(_matches(folder, site) for folder in folders):
            raise ConfigError(unknown("site", site, map(institute_of, folders), str(path)))
    return sorted(name for name in tree if not sites or name.parent.name in kept)


def _matches(folder: str, site: str) -> bool:
    return folder.casefold().startswith(site.casefold()) or institute_of(folder).casefold() == site.casefold()


def _parse(data: bytes, encoding: str, place: str) -> ElementTree.Element:
    try:
        text = decode(data, encoding, place)
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise Refused("the XML declares a document type or entities", "remove the declaration")
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as problem:
        raise Refused(f"the file is not XML: {problem}", "mend or remove the file") from None
    except DataError as problem:
        raise Refused(f"the file cannot be decoded: {problem}", "save it as UTF-8") from None


@contextmanager
def _open_tree(path: Path) -> Iterator[Tree]:
    """The XML files of a folder, of a zip file, or of the only zip file in a folder."""
    if path.is_dir():
        files = [file for file in path.resolve().rglob("*.xml") if _visible(file.relative_to(path.resolve()))]
        archives = sorted(path.glob("*.zip"))
        if files:
            parent = path.resolve().parent
            yield {PurePosixPath(file.relative_to(parent).as_posix()): partial(_file_bytes, file) for file in files}
            return
        if len(archives) != 1:
            raise DataError(f"{path} holds neither .xml files nor one .zip file; name the folder or zip of MedQuAD")
        path = archives[0]
    with _open_archive(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".xml")]
        _check_total(path, sum(info.file_size for info in members))
        names = [(PurePosixPath(info.filename), info) for info in members]
        yield {name: partial(_member_bytes, archive, info) for name, info in names if _visible(name)}


def _open_archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as problem:
        raise DataError(f"{path} is not a readable zip file ({problem}); download it again") from None


def _check_total(path: Path, size: int) -> None:
    if size > MAX_ARCHIVE:
        raise DataError(
            f"{path} unpacks to {size:,} bytes; at most {MAX_ARCHIVE:,} are read: check where it comes from"
        )


def _visible(name: PurePath) -> bool:
    return not any(part.startswith((".", "__MACOSX")) for part in name.parts)


def _file_bytes(file: Path) -> bytes:
    _check_size(file.stat().st_size)
    return read_bytes(file)


def _member_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    _check_size(info.file_size)  # what the archive says; never more than that is unpacked
    try:
        return archive.read(info)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as problem:
        raise Refused(f"the file cannot be unpacked: {shown(str(problem))}", "download the archive again") from None


def _check_size(size: int) -> None:
    if size > MAX_MEMBER:
        raise Refused(f"the file has {size:,} bytes; at most {MAX_MEMBER:,} are read", "check where it comes from")
