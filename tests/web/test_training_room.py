# SPDX-License-Identifier: Apache-2.0
import json
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w
from trained_silo import QUESTION, TrainedSilo
from web_toys import Silo, Visitor

from fedqa.data.records import Collection, Quarantined
from fedqa.federation.run_folder import RunFolder
from fedqa.store import Role

FORMS = ("/training/start", "/training/stop", "/training/approve", "/training/refuse")


@pytest.fixture
def north(tmp_path: Path, trained_once: Path) -> Iterator[TrainedSilo]:
    """Trained for two rounds, with one correction."""
    silo = TrainedSilo(tmp_path / "silo", trained_once)
    yield silo
    silo.trainings.stop("the test")
    silo.store.close()


@pytest.fixture
def untrained(tmp_path: Path, made_once: Path) -> Iterator[TrainedSilo]:
    silo = TrainedSilo(tmp_path / "silo", made_once)
    yield silo
    silo.trainings.stop("the test")
    silo.store.close()


def bearer(silo: Silo, role: Role = "owner") -> dict[str, str]:
    return {"Authorization": f"Bearer {silo.session(role)}"}


def fingerprint(silo: TrainedSilo) -> str:
    return str(silo.visitor("reader").get("/api/training/course").json()["course"]["fingerprint"])


def approve(silo: TrainedSilo) -> None:
    answer = silo.visitor("owner").submit("/training/approve", fingerprint=fingerprint(silo))
    assert answer.status_code == 303


def wait(silo: TrainedSilo, seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while silo.trainings.status().state == "running":
        assert time.monotonic() < until, "the training takes too long"
        time.sleep(0.1)


# -- what is shown -------------------------------------------------------------------------------------------------


def test_a_page_without_a_training_says_so_and_starts_nothing(silo: Silo, owner: Visitor) -> None:
    page = owner.get("/training")
    assert page.status_code == 200
    assert "No training is set up here." in page.text
    assert 'action="/training/start"' not in page.text
    assert owner.submit("/training/start").status_code == 400
    assert owner.get("/training/course").status_code == 400
    assert "no training is set up" in owner.get("/api/training/course").json()["detail"].lower()


def test_before_the_first_training_there_is_a_course_to_read(untrained: TrainedSilo) -> None:
    page = untrained.visitor("owner").get("/training").text
    assert "No training has been started from this page." in page
    assert "Read and approve the course" in page
    assert "Not decided" in page
    assert "Rounds" not in page
    assert "waiting for the next training" in page
    assert "21 examples: 20 imported, 1 added here, 0 from corrected answers" in page.replace("\u202f", "")


def test_rounds_curves_and_comparison_of_a_finished_run_are_shown(north: TrainedSilo) -> None:
    page = north.visitor("reader").get("/training").text
    assert page.count("<td>2 of 2 silos</td>") == 2
    assert page.count('<svg class="curves"') == 2
    assert page.index("<figcaption>north") < page.index("<figcaption>south")
    assert "Together, as received" in page
    assert "Best on dev" in page
    assert "MAP of this silo's models" in page
    assert "style=" not in page
    assert str(north.folder) not in page


def test_what_became_of_a_correction_is_said(north: TrainedSilo) -> None:
    page = north.visitor("reader").get("/training").text
    line = north.visitor("reader").get("/api/training").json()["corrections"]["lines"][0]
    assert line["question"] == QUESTION
    assert line["state"] in ("learned", "forgotten", "not yet")
    assert line["words"] in page
    learned_in(north, {1: False, 2: True})
    page = north.visitor("reader").get("/training").text
    assert "learned in round 2" in page
    assert "1 correction made here: 1 learned." in page
    learned_in(north, {1: True, 2: False})
    assert "forgotten again (was right in round 1)" in north.visitor("reader").get("/training").text


def test_learned_and_answered_are_two_things_and_both_are_said(north: TrainedSilo) -> None:
    learned_in(north, {1: False, 2: True})
    example = north.store.examples(origin="annotated").items[0].example.id
    reader = north.visitor("reader")
    for right, badge, words in (
        (False, '<span class="badge bad">not answered right</span>', "1 learned; 0 of 1 answered right."),
        (True, '<span class="badge good">answered right</span>', "1 learned; 1 of 1 answered right."),
    ):
        north.desk.checked = {example: right}
        page = reader.get("/training").text
        assert "learned in round 2" in page and badge in page and words in page
        assert badge in north.visitor("editor").get("/examples").text
        line = reader.get("/api/training").json()["corrections"]["lines"][0]
        assert (line["state"], line["answered"]) == ("learned", right)
        assert north.visitor("editor").get("/api/examples/answered").json() == {example: right}


def learned_in(silo: TrainedSilo, rounds: dict[int, bool]) -> None:
    example = silo.store.examples(origin="annotated").items[0].example.id
    lines = [
        {"round": number, "version": "1", "examples": 21, "new": 1, "right": {example: right}, "point": "personal"}
        for number, right in rounds.items()
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (RunFolder(silo.run).silo("north") / "learning.jsonl").write_text(text, encoding="utf-8")


def test_refusals_are_said_in_words_and_names_are_text(north: TrainedSilo) -> None:
    lines = (north.run / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    table = json.loads(lines[1])
    table["refused"] = [["<b>birch", "diverged"], ["ash", "<script>x"], ["north", "failed"]]
    table["stage"], table["void"] = "<i>stage", True
    (north.run / "rounds.jsonl").write_text(f"{lines[0]}\n{json.dumps(table)}\n", encoding="utf-8")
    page = north.visitor("reader").get("/training").text
    assert "&lt;b&gt;birch: its losses or weights became infinite" in page
    assert "ash: a reason that has no words here" in page
    assert "Too few answers: this round changed nothing." in page
    assert "Round 2 changed nothing: too few answers could be used." in page
    assert "Round 2 did without this silo: the silo&#39;s work ended with an error" in page
    for code in ("<b>birch", "<script>x", "<i>stage"):
        assert code not in page


def test_questions_and_people_are_text_on_the_training_page(north: TrainedSilo) -> None:
    from fedqa.store import Correction

    document = north.store.documents("Coats").items[0].document
    north.store.correct(Correction("<img src=x onerror=y>?", "<b>Eve", document.id, 0, 5, "Leave"))
    page = north.visitor("reader").get("/training").text
    assert "<img src" not in page
    assert "&lt;img src=x onerror=y&gt;?" in page


@pytest.mark.parametrize("file", ["rounds.jsonl", "course.toml", "result.json"])
def test_a_damaged_run_folder_is_said_in_words_without_a_path(north: TrainedSilo, file: str) -> None:
    (north.run / file).write_text("nonsense\n", encoding="utf-8")
    for path in ("/training", "/training/now"):
        page = north.visitor("owner").get(path)
        assert page.status_code == 200
        assert "its folder is damaged" in page.text
        assert str(north.folder) not in page.text
    assert str(north.folder) not in north.visitor("reader").get("/api/training").text


def test_records_that_were_left_out_are_shown_with_what_mends_them(north: TrainedSilo) -> None:
    path = RunFolder(north.run).silo("north") / "quarantine.tsv"
    path.write_text("place\treason\tremedy\n/srv/x/north.csv line 3\tthe <b>answer</b> is empty\tgive one\n")
    page = north.visitor("reader").get("/training").text
    assert "1 record could not be used" in page
    assert "the &lt;b&gt;answer&lt;/b&gt; is empty" in page
    assert "/srv/x" not in page
    assert north.visitor("reader").get("/api/training/left-out").json() == [
        {"place": "north.csv line 3", "reason": "the <b>answer</b> is empty", "remedy": "give one"}
    ]


def test_what_was_left_out_of_files_stands_with_it(north: TrainedSilo) -> None:
    bad = (Quarantined("/srv/x/more.csv:7", "the question is empty", "write one"),)
    north.store.add_collection(Collection((), (), bad), source="more.csv", who="Edda")
    page = north.visitor("reader").get("/training").text
    assert "1 record could not be used" in page and "more.csv:7" in page and "/srv/x" not in page
    assert north.visitor("reader").get("/api/training/left-out").json() == [
        {"place": "more.csv:7", "reason": "the question is empty", "remedy": "write one"}
    ]


# -- the course ----------------------------------------------------------------------------------------------------


def test_the_course_says_what_leaves_what_stays_and_its_fingerprint(untrained: TrainedSilo) -> None:
    page = untrained.visitor("reader").get("/training/course").text
    assert "how 17\u202f089 numbers of the model changed" in page
    assert "All documents, questions and answers." in page
    assert fingerprint(untrained) in page
    assert "An owner of this silo decides." in page
    assert 'action="/training/approve"' not in page
    assert 'action="/training/approve"' in untrained.visitor("owner").get("/training/course").text


def test_only_an_approved_course_can_be_trained(untrained: TrainedSilo) -> None:
    owner = untrained.visitor("owner")
    refused = owner.submit("/training/start")
    assert refused.status_code == 400
    assert "has not been approved" in refused.text
    owner.submit("/training/refuse", fingerprint=fingerprint(untrained))
    assert "This course has been refused" in owner.submit("/training/start").text
    assert "Refused" in owner.get("/training").text
    assert untrained.trainings.status().state == "idle"
    approve(untrained)
    page = owner.get("/training").text
    assert "was approved by Otto" in page
    assert 'action="/training/start"' in page


def test_a_course_that_changed_since_it_was_read_is_not_approved(untrained: TrainedSilo) -> None:
    read = fingerprint(untrained)
    alliance = untrained.folder / "alliance.toml"
    alliance.write_text(alliance.read_text().replace('method = "fedavg"', 'method = "central"'), encoding="utf-8")
    owner = untrained.visitor("owner")
    answer = owner.submit("/training/approve", fingerprint=read)
    assert answer.status_code == 400
    assert "has changed since" in answer.text
    page = owner.get("/training/course").text
    assert "All documents and examples, in clear." in page
    assert "That is pooling, not federated training." in page


def test_an_approval_does_not_outlive_a_change_of_the_course(untrained: TrainedSilo) -> None:
    approve(untrained)
    alliance = untrained.folder / "alliance.toml"
    alliance.write_text(alliance.read_text().replace("batch = 4", "batch = 5"), encoding="utf-8")
    assert "has not been approved" in untrained.visitor("owner").submit("/training/start").text


def test_an_alliance_file_that_cannot_be_read_is_said_without_a_path(untrained: TrainedSilo) -> None:
    (untrained.folder / "alliance.toml").write_text("nonsense", encoding="utf-8")
    owner = untrained.visitor("owner")
    for path, status in (("/training", 200), ("/training/course", 400), ("/api/training/course", 400)):
        page = owner.get(path)
        assert page.status_code == status
        assert "cannot be read" in page.text
        assert str(untrained.folder) not in page.text
    assert owner.submit("/training/start").status_code == 400


# -- who may do what -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["reader", "editor"])
def test_readers_and_editors_look_and_do_not_touch(north: TrainedSilo, role: Role) -> None:
    visitor, course = north.visitor(role), fingerprint(north)
    page = visitor.get("/training")
    assert page.status_code == 200
    assert "<form" not in page.text.partition("<main")[2]
    for path in FORMS:
        assert visitor.submit(path, fingerprint=course).status_code == 403
        api = path.replace("/training/approve", "/training/course/approve").replace("/refuse", "/course/refuse")
        assert visitor.post(f"/api{api}", json={"fingerprint": course}, headers=bearer(north, role)).status_code == 403
    assert north.visitor("owner").get("/api/training/course").json()["decision"] is None


def test_a_stranger_sees_nothing(north: TrainedSilo) -> None:
    stranger = north.visitor()
    for path in ("/training", "/training/now", "/training/course"):
        assert stranger.get(path, follow_redirects=False).headers["location"].startswith("/login")
    for path in ("/api/training", "/api/training/course", "/api/training/left-out"):
        assert stranger.get(path).status_code == 401


def test_a_form_from_elsewhere_starts_nothing(north: TrainedSilo) -> None:
    approve(north)
    owner = north.visitor("owner")
    for path in FORMS:
        assert owner.post(path, data={"fingerprint": fingerprint(north)}).status_code == 403
    assert north.trainings.status().state == "idle"


# -- a training ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_training_is_started_followed_and_ends_with_more_rounds(north: TrainedSilo) -> None:
    approve(north)
    owner = north.visitor("owner")
    assert owner.submit("/training/start").headers["location"] == "/training"
    now = owner.get("/training/now").text
    assert 'id="now" data-poll="/training/now"' in now
    assert "Started by Otto" in now
    assert "<progress" in now
    assert 'action="/training/stop"' in now
    assert "data-poll" not in north.visitor("reader").get("/training/course").text
    assert "is running already" in owner.submit("/training/start").text
    wait(north)
    now = owner.get("/training/now").text
    assert "data-poll" not in now
    assert "Finished: 1 round" in now
    told = owner.get("/api/training", headers=bearer(north)).json()
    assert told["status"]["state"] == "finished"
    assert [line["number"] for line in told["rounds"]] == [1, 2, 3]
    assert len(owner.get("/api/ledger").json()["items"]) == 5  # another update, and the scores again


@pytest.mark.slow
def test_a_training_can_be_stopped(north: TrainedSilo) -> None:
    approve(north)
    headers = bearer(north)
    visitor = north.visitor()
    assert visitor.post("/api/training/start", headers=headers).json()["state"] == "running"
    stopped = visitor.post("/api/training/stop", headers=headers).json()
    assert stopped["state"] == "idle"
    assert stopped["message"].startswith("Stopped by Otto after round 2")
    assert "Stopped by Otto" in north.visitor("reader").get("/training").text


def test_why_a_training_cannot_be_started_is_said_without_a_path(untrained: TrainedSilo) -> None:
    approve(untrained)
    untrained.run.mkdir(parents=True)
    (untrained.run / "course.toml").write_text("nonsense", encoding="utf-8")
    answer = untrained.visitor("owner").submit("/training/start")
    assert answer.status_code == 400
    assert "ourse.toml is not valid TOML" in answer.text
    assert str(untrained.folder) not in answer.text


def test_a_long_run_of_many_silos_is_shown_in_part(north: TrainedSilo) -> None:
    table = tomllib.loads((north.run / "course.toml").read_text(encoding="utf-8"))
    line = json.loads((north.run / "rounds.jsonl").read_text(encoding="utf-8").splitlines()[0])
    names = [f"silo{number}" for number in range(14)]
    table["course"]["silos"] = [{"name": name} for name in ("north", *names)]
    line["metrics"] |= dict.fromkeys(names, line["metrics"]["south"])
    rounds = [line | {"round": number} for number in range(1, 21)]
    (north.run / "course.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    (north.run / "rounds.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rounds), encoding="utf-8")
    (north.run / "result.json").unlink()
    page = north.visitor("reader").get("/training").text
    assert page.count('<svg class="curves"') == 12
    assert "And 3 more silos" in page
    assert "8 earlier rounds" in page
