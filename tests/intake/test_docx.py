# SPDX-License-Identifier: Apache-2.0
"""Word documents: what stands in the body, in its order, as it reads with all changes accepted."""

from io import BytesIO

import docx as python_docx
import pytest
from docx.oxml import OxmlElement
from intake_files import W, archive, docx, paragraph, relations

from fedqa.intake.docx import read
from fedqa.intake.records import Extracted, IntakeError, Limits


def text_of(content: bytes) -> str:
    return read(content, Limits()).text


def saved(document: object) -> bytes:
    buffer = BytesIO()
    document.save(buffer)  # type: ignore[attr-defined]
    return buffer.getvalue()


def leaflet() -> bytes:
    document = python_docx.Document()
    document.core_properties.title = "Word Document"
    document.sections[0].header.paragraphs[0].text = "Larkmoor General Hospital"
    document.sections[0].footer.paragraphs[0].text = "Page 1"
    document.add_heading("Having a gastroscopy", 0)
    document.add_heading("Before you come", 1)
    document.add_paragraph("Do not eat for ").add_run("six hours").bold = True
    document.add_paragraph("Please bring:")
    document.add_paragraph("this letter", style="List Bullet")
    document.add_paragraph("your glasses", style="List Bullet")
    document.add_paragraph("their case", style="List Bullet 2")
    table = document.add_table(rows=3, cols=2)
    for line, cells in zip(
        table.rows, (("Food", "Stop before"), ("Solid food", "6 hours"), ("Water", "2 hours")), strict=True
    ):
        for cell, text in zip(line.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph("First come to the desk.", style="List Number")
    document.add_paragraph("Then wait.", style="List Number")
    bold = document.add_paragraph()
    bold.add_run("Opening hours").bold = True
    document.add_paragraph("From nine to five.")
    return saved(document)


def test_a_leaflet_comes_out_in_its_order_without_header_and_footer() -> None:
    assert read(leaflet(), Limits()) == Extracted(
        "Having a gastroscopy",
        "Having a gastroscopy\nBefore you come\nDo not eat for six hours\n\n"
        "Please bring:\n- this letter\n- your glasses\n- their case\n\n"
        "Food | Stop before\nSolid food | 6 hours\nWater | 2 hours\n\n"
        "1. First come to the desk.\n2. Then wait.\n\n"
        "Opening hours\nFrom nine to five.",
        "docx",
    )


def test_tracked_changes_are_read_as_accepted() -> None:
    inserted = "<w:ins><w:r><w:t>two </w:t></w:r></w:ins>"
    deleted = '<w:del w:id="1"><w:r><w:delText>six </w:delText></w:r></w:del>'
    moved = "<w:moveFrom><w:r><w:t>gone </w:t></w:r></w:moveFrom><w:moveTo><w:r><w:t>here</w:t></w:r></w:moveTo>"
    rows = "<w:tr><w:trPr><w:del/></w:trPr><w:tc><w:p/></w:tc><w:tc><w:p/></w:tc></w:tr>"
    body = f"<w:p>{deleted}{inserted}{moved}</w:p><w:tbl>{rows}</w:tbl><w:del>{paragraph('gone')}</w:del>"
    found = read(docx(body), Limits())
    assert found.text == "two here"
    assert found.notes == ("The document has tracked changes; it was read as if all of them were accepted.",)


def test_hidden_text_comments_and_field_codes_are_left_out() -> None:
    body = (
        "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden </w:t></w:r><w:r><w:t>seen</w:t></w:r>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:rPr><w:vanish w:val='0'/></w:rPr><w:t> too</w:t></w:r>"
        "<w:commentRangeStart w:id='0'/></w:p>"
    )
    assert text_of(docx(body, {"word/comments.xml": "<x>comment</x>"})) == "seen too"


def test_text_boxes_content_controls_breaks_and_superscripts_are_read_once() -> None:
    namespace = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    box = f"<w:txbxContent>{paragraph('In the box.')}</w:txbxContent>"
    choice = f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
    both = f"<mc:AlternateContent {namespace}>{choice}</mc:AlternateContent>"
    control = f"<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent>{paragraph('Controlled.')}</w:sdtContent></w:sdt>"
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>2</w:t></w:r>'
    below = f"<w:r><w:br/><w:t>below</w:t><w:tab/><w:t>it</w:t>{both}</w:r>"
    body = f"<w:p><w:r><w:t>5 m</w:t></w:r>{raised}{below}</w:p>{control}"
    assert text_of(docx(body)) == "5 m²\nbelow it\n\nIn the box.\n\nControlled."


def test_merged_cells_have_their_text_in_every_row_and_a_table_of_one_column_is_no_table() -> None:
    def cell(text: str, merge: str = "") -> str:
        return f"<w:tc><w:tcPr>{merge}</w:tcPr>{paragraph(text)}</w:tc>"

    begin, on = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    rows = f"<w:tr>{cell('Morning', begin)}{cell('tea')}</w:tr><w:tr>{cell('', on)}{cell('toast')}</w:tr>"
    single = f"<w:tbl><w:tr>{cell('Important.')}</w:tr></w:tbl>"
    assert text_of(docx(f"<w:tbl>{rows}</w:tbl>{single}")) == "Morning | tea\nMorning | toast\n\nImportant."


def numbered(level: int, number: int = 1) -> str:
    return f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'


def test_numbers_are_those_that_word_prints() -> None:
    levels = "".join(
        f'<w:lvl w:ilvl="{k}"><w:start w:val="{start}"/><w:numFmt w:val="{style}"/>'
        f'<w:lvlText w:val="{pattern}"/></w:lvl>'
        for k, (start, style, pattern) in enumerate(
            [(4, "decimal", "%1."), (1, "decimal", "%1.%2"), (1, "lowerLetter", "(%3)"), (1, "upperRoman", "%4")]
        )
    )
    restart = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride>'
    numbering = (
        f'<w:numbering xmlns:w="{W}"><w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
        f'<w:num w:numId="2"><w:abstractNumId w:val="7"/>{restart}</w:num></w:numbering>'
    )
    places = [(0, 1), (1, 1), (1, 1), (2, 1), (2, 1), (3, 1), (0, 1), (1, 1), (0, 2)]
    body = "".join(paragraph("x", numbered(level, number)) for level, number in places)
    parts = {
        "word/numbering.xml": numbering,
        "word/_rels/document.xml.rels": relations(numbering="numbering.xml"),
    }
    markers = [line.split()[0] for line in text_of(docx(body, parts)).split("\n")]
    assert markers == ["4.", "4.1", "4.2", "(a)", "(b)", "I", "5.", "5.1", "1."]


def test_headings_are_known_by_the_names_and_levels_of_their_styles_in_any_language() -> None:
    styles = (
        f'<w:styles xmlns:w="{W}">'
        '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Own"><w:name w:val="Own"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
        '<w:style w:styleId="Based"><w:basedOn w:val="berschrift1"/></w:style>'
        '<w:style w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style>'
        '<w:style w:styleId="Verzeichnis1"><w:name w:val="toc 1"/></w:style></w:styles>'
    )
    body = "".join(
        paragraph(text, f'<w:pStyle w:val="{style}"/>')
        for text, style in [
            ("Inhalt 3", "Verzeichnis1"),
            ("A", "berschrift1"),
            ("B", "Own"),
            ("C", "Based"),
            ("d.", "Loop"),
        ]
    )
    found = read(
        docx(body, {"word/styles.xml": styles, "word/_rels/document.xml.rels": relations(styles="styles.xml")}),
        Limits(),
    )
    assert (found.title, found.text) == ("A", "A\nB\nC\nd.")


def test_footnotes_follow_at_the_end_with_the_number_of_their_mark() -> None:
    notes = (
        f'<w:footnotes xmlns:w="{W}"><w:footnote w:type="separator" w:id="0">{paragraph("---")}</w:footnote>'
        f'<w:footnote w:id="2">{paragraph("Not on Sundays.")}</w:footnote></w:footnotes>'
    )
    body = '<w:p><w:r><w:t>Open daily.</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    parts = {"word/footnotes.xml": notes, "word/_rels/document.xml.rels": relations(footnotes="footnotes.xml")}
    assert text_of(docx(body, parts)) == "Open daily.[2]\n\n[2] Not on Sundays."


def test_the_body_is_found_wherever_the_package_says_it_is() -> None:
    document = f'<w:document xmlns:w="{W}"><w:body>{paragraph("Found.")}</w:body></w:document>'
    parts = {"_rels/.rels": relations(officeDocument="/word/document2.xml"), "word/document2.xml": document}
    assert text_of(archive(parts)) == "Found."


def test_a_document_that_word_wrote_with_a_picture_and_no_text_is_empty() -> None:
    document = python_docx.Document()
    document.element.body.append(OxmlElement("w:p"))
    assert text_of(saved(document)) == ""


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("xl/workbook.xml", "it is an Excel workbook; accepted are .*; save it as PDF or .docx"),
        ("ppt/presentation.xml", "it is a PowerPoint presentation"),
        ("mimetype", "it is an OpenDocument or EPUB file"),
        ("word/document.xml", r"it is a Word document of another variant \(strict Open XML\)"),
        ("photo.jpg", "it is a ZIP archive; accepted are .*; unpack it and upload the documents in it"),
    ],
)
def test_other_archives_are_refused_by_what_they_are(part: str, message: str) -> None:
    with pytest.raises(IntakeError, match=message):
        read(archive({part: "<x/>"}), Limits())
