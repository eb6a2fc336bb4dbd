# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from fedqa.data.sample_queries import sample_queries, sample_queries_of
from fedqa.errors import ConfigError


def test_a_sample_database_is_a_silo_with_its_schema_as_document(tmp_path: Path) -> None:
    silo = sample_queries("hospital", tmp_path)
    (schema,) = silo.documents
    assert schema.text.startswith(" | wards : ward_id , name , specialty , floor , beds , extension | clinicians : ")
    assert " | clinicians.ward_id = wards.ward_id" in schema.text
    assert len(silo.examples) == 306
    assert {example.about for example in silo.examples} == {schema.id} == {"hospital"}
    assert all(example.sql for example in silo.examples)


def test_a_sample_silo_without_a_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'law' has no database \(those with one: hospital, bank\)"):
        sample_queries("law", tmp_path)


def test_a_silo_may_name_a_file_for_the_database_or_none(tmp_path: Path) -> None:
    file = tmp_path / "new" / "beds.db"
    assert sample_queries_of("hospital", str(file)) == sample_queries_of("hospital", "")
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "beds.db"]
    with pytest.raises(ConfigError, match=r"'hospital' is built in a file; name one, as in database = \"hospital.sql"):
        sample_queries_of("hospital", "postgresql://host/beds")
