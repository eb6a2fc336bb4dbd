# SPDX-License-Identifier: Apache-2.0
"""A silo's questions and its database, in SQLite and in PostgreSQL alike."""

from databases.targets import Target

from fedqa.answering.saying import sentence
from fedqa.data.queries import about_database
from fedqa.data.records import Collection
from fedqa.data.sample import sample_pairs
from fedqa.evaluation.sql import execution_matches


def test_a_silo_takes_its_schema_from_either(target: Target) -> None:
    silo = about_database(Collection((), sample_pairs("hospital")), target.where)
    (document,) = silo.documents
    assert " | wards : ward_id , name , specialty , floor , beds , extension" in document.text
    assert " | admissions.ward_id = wards.ward_id" in document.text
    assert {example.about for example in silo.examples} == {document.id}


def test_execution_is_scored_in_either(target: Target) -> None:
    wards, patients = "SELECT COUNT(*) FROM wards", "SELECT COUNT(*) FROM patients"
    assert execution_matches(target.where, [(wards, wards), (patients, wards), ("DROP TABLE wards", wards)]) == [
        1,
        0,
        0,
    ]


def test_what_either_finds_is_said_alike(target: Target) -> None:
    table = target.database.run("SELECT name, beds FROM wards ORDER BY beds DESC LIMIT 1")
    assert sentence("Which ward has the most beds?", table) == "One row: name Alder and beds 68."
    table = target.database.run("SELECT AVG(beds) FROM wards")
    assert sentence("How many beds on average?", table) == "The answer is 58.86."
