# SPDX-License-Identifier: Apache-2.0
"""Links between a question and a toy schema, with and without what its database holds."""

from fedqa.data.schema_text import read_schema
from fedqa.databases.contents import Contents
from fedqa.skills.sql.linking import HOLDING, NAME, NAME_PART, VALUE, VALUE_PART, Linker
from fedqa.skills.sql.question import LONGEST_SPAN, Question
from fedqa.skills.sql.schema import SchemaItems

SCHEMA = SchemaItems(
    read_schema(" | wards : ward_id , name , beds | staff : full_name , job_title , ward_id , joined_on , grade")
)
CONTENTS = Contents(
    {
        ("wards", "name"): ("Alder", "Oak", "Oak Lodge", "oak"),
        ("staff", "full_name"): ("Ann Alder", "Bo Ek"),
        ("staff", "job_title"): ("ward manager", "cashier"),
        ("staff", "grade"): ("7", "F", "in"),
        ("elsewhere", "name"): ("staff",),
    }
)


def links(question: str, contents: Contents | None = CONTENTS) -> set[tuple[str, str, int]]:
    """Links as words of the question, item and kind."""
    asked = Question(question)
    return {
        (" ".join(asked.words[one.first : one.last + 1]), str(SCHEMA[one.item].words), one.kind)
        for one in Linker(SCHEMA, contents).links(asked)
    }


def test_names_are_found_as_a_whole_and_by_a_word_like_one_of_theirs() -> None:
    assert links("Which wards have 20 beds?", None) == {
        ("wards", "table wards", NAME),
        ("wards", "wards : ward id", NAME_PART),
        ("wards", "staff : ward id", NAME_PART),
        ("beds", "wards : beds", NAME),
    }
    assert links("job titles of those who join", None) == {
        ("job titles", "staff : job title", NAME),
        ("job", "staff : job title", NAME_PART),
        ("titles", "staff : job title", NAME_PART),
        ("join", "staff : joined on", NAME_PART),
    }


def test_values_are_found_whatever_their_case_and_number_and_so_are_their_tables() -> None:
    found = links("Ward Managers at ALDER")
    assert {one for one in found if one[2] in (VALUE, HOLDING)} == {
        ("Ward Managers", "staff : job title", VALUE),
        ("Ward Managers", "table staff", HOLDING),
        ("ALDER", "wards : name", VALUE),
        ("ALDER", "table wards", HOLDING),
    }
    assert ("ALDER", "staff : full name", VALUE_PART) in found
    assert ("Ward", "staff : job title", VALUE_PART) not in found  # it is in the whole one


def test_a_value_inside_a_longer_one_is_not_meant() -> None:
    found = {one for one in links("the beds of Oak Lodge") if one[2] in (VALUE, VALUE_PART)}
    assert found == {("Oak Lodge", "wards : name", VALUE)}


def test_single_letters_and_words_of_any_question_are_no_values() -> None:
    assert links("who is in F") == set()
    assert links("is it 7") == set()


def test_a_value_is_spelled_as_the_database_does_if_there_is_one_only() -> None:
    linker, name, title = Linker(SCHEMA, CONTENTS), SCHEMA.find("wards", "name"), SCHEMA.find("staff", "job_title")
    assert name is not None and title is not None
    assert linker.spelled("ward managers", title) == "ward manager"
    assert linker.spelled("ALDER", name) == "Alder"
    assert linker.spelled("Oak", name) == "Oak"  # exactly this one
    assert linker.spelled("OAK", name) is None  # Oak or oak?
    assert linker.spelled("Alder", title) is None
    assert Linker(SCHEMA).spelled("Alder", name) is None


def test_the_span_that_means_a_value_is_found() -> None:
    linker, title = Linker(SCHEMA, CONTENTS), SCHEMA.find("staff", "job_title")
    assert title is not None
    assert linker.span(Question("The ward managers, please"), "ward manager", title) == 1 * LONGEST_SPAN + 1
    assert linker.span(Question("The managers, please"), "ward manager", title) is None


def test_links_are_the_same_each_time_and_in_the_order_of_words() -> None:
    asked = Question("Which ward manager joined Alder ward?")
    found = Linker(SCHEMA, CONTENTS).links(asked)
    assert found == Linker(SCHEMA, CONTENTS).links(asked) == sorted(found)
    assert Linker(SCHEMA, CONTENTS).links(Question("")) == []
