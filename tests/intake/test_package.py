# SPDX-License-Identifier: Apache-2.0
"""Archives that would unpack to gigabytes and XML that would grow are refused before they do."""

import struct
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from intake_files import archive, docx, paragraph

from fedqa.intake.docx import read
from fedqa.intake.package import Package
from fedqa.intake.records import IntakeError, Limits

BOMB = "it would unpack to far more than a document of its size holds; open it in Word or LibreOffice, save it again"


def test_a_part_that_grows_two_hundred_times_is_refused_but_a_white_picture_is_not() -> None:
    package = Package(
        archive({"word/document.xml": bytes(1_000_000), "word/media/white.bmp": bytes(5_000_000)}), Limits()
    )
    with pytest.raises(IntakeError, match=BOMB):
        package.part("word/document.xml")


def test_parts_that_are_too_large_together_are_refused_by_the_directory_alone() -> None:
    content = archive({f"{k}.bin": bytes(range(256)) * 200 for k in range(4)})  # 51,200 bytes each
    with pytest.raises(IntakeError, match=BOMB):
        Package(content, Limits(unpacked_bytes=200_000))
    Package(content, Limits(unpacked_bytes=204_800))


def test_too_many_parts_are_refused() -> None:
    with pytest.raises(IntakeError, match=BOMB):
        Package(archive({f"{k}": "" for k in range(5_001)}), Limits())


def lying(content: bytes, part: bytes, claimed: int) -> bytes:
    """The archive with a smaller size of a part written into its directory and into the part's own header."""
    changed = bytearray(content)
    for signature, size_at, name_at in ((b"PK\x01\x02", 24, 46), (b"PK\x03\x04", 22, 30)):
        at = 0
        while (at := changed.find(signature, at)) >= 0:
            if changed[at + name_at :].startswith(part):
                changed[at + size_at : at + size_at + 4] = struct.pack("<I", claimed)
            at += 4
    return bytes(changed)


def test_a_directory_that_lies_about_sizes_gains_nothing() -> None:
    content = docx("<w:p/>" * 300_000)  # 1.8 MB from a few kB
    with pytest.raises(IntakeError, match=BOMB):
        read(content, Limits())
    with pytest.raises(IntakeError, match="it is damaged: a part of it cannot be read"):
        read(lying(content, b"word/document.xml", 90_000), Limits())


def test_what_really_comes_out_is_counted_while_it_is_read() -> None:
    content = docx("".join(paragraph(f"text {k * k}") for k in range(1_000)))
    package = Package(content, Limits())
    package.left = 50_000  # as if other parts had used up the rest
    with pytest.raises(IntakeError, match=BOMB):
        package.part("word/document.xml")


def test_archives_inside_the_archive_are_never_opened() -> None:
    bomb = archive({"zeros": bytes(10_000_000)})
    nested = archive({f"{k}.zip": bomb for k in range(5)})
    assert read(docx(paragraph("Fine."), {"word/embeddings/inner.zip": nested}), Limits()).text == "Fine."


def test_two_parts_of_one_name_are_refused() -> None:
    buffer = BytesIO()
    with pytest.warns(UserWarning, match="Duplicate name"), ZipFile(buffer, "w", ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", "<a/>")
        file.writestr("word/document.xml", "<b/>")
    with pytest.raises(IntakeError, match="it is damaged: two parts in it have the same name"):
        Package(buffer.getvalue(), Limits())


LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))


@pytest.mark.parametrize(
    "declaration",
    [
        f'<!DOCTYPE w [<!ENTITY l0 "ha">{LAUGHS}]>',
        '<!DOCTYPE w [<!ENTITY l9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE w SYSTEM "http://bad.example/x.dtd">',
        '<!DOCTYPE w [<!ENTITY % p SYSTEM "http://bad.example/x.dtd"> %p;]>',
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused_whatever_they_would_become(declaration: str, encoding: str) -> None:
    xml = f'<?xml version="1.0" encoding="{encoding}"?>{declaration}<w>&l9;</w>'
    with pytest.raises(IntakeError, match="it declares XML entities, which no Word document does"):
        Package(archive({"part": xml.encode(encoding)}), Limits()).part("part")


def test_elements_that_are_nested_too_deeply_are_refused() -> None:
    with pytest.raises(IntakeError, match="its parts are nested too deeply"):
        Package(archive({"part": "<a>" * 1_000}), Limits(ratio=10_000)).part("part")


@pytest.mark.parametrize("xml", ["", "<a>", "not xml", "<a>\x00</a>", "<a b=1/>"])
def test_a_part_that_is_no_xml_is_damaged(xml: str) -> None:
    with pytest.raises(IntakeError, match="it is damaged: a part of it cannot be read; open it in Word"):
        Package(archive({"part": xml}), Limits()).part("part")


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"PK\x03\x04" + bytes(500), docx("<w:p/>")[:-30]])
def test_an_archive_that_was_cut_off_is_damaged(content: bytes) -> None:
    with pytest.raises(IntakeError, match="it is damaged: the parts in it cannot be listed"):
        Package(content, Limits())


def test_an_encrypted_part_is_damaged_for_us() -> None:
    content = bytearray(docx(paragraph("x")))
    at = content.rfind(b"PK\x01\x02")
    content[at + 8] |= 1  # the flag for encryption, in the directory
    with pytest.raises(IntakeError, match="it is damaged: a part of it cannot be read"):
        read(bytes(content), Limits())


def test_a_relation_to_the_outside_is_not_followed() -> None:
    rels = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" '
        'Type="x/officeDocument" Target="http://bad.example/" TargetMode="External"/></Relationships>'
    )
    assert Package(archive({"_rels/.rels": rels}), Limits()).related("", "officeDocument") == ""
