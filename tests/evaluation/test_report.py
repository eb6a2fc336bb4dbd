# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from toys import toy_course, toy_run
from written_runs import VALUES, WORK, course, record, write_run

from fedqa.config import Project, save_project
from fedqa.errors import RunError
from fedqa.evaluation.report import plain_markdown, write_report
from fedqa.evaluation.result import result_of
from fedqa.federation.course import Choice, Evaluation, Mixing, SiloPlan
from fedqa.federation.run_folder import RunFolder

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta"}
ROLLED_UP = ["Mean of silos", "All questions", "Worst silo"]


class Page(HTMLParser):
    """What a reader finds on a page: elements with their attributes, tables as rows of cells, text by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text: dict[str, str] = {}
        self._open: list[str] = []
        self._section = "header"
        self._rows: list[list[str]] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
        if tag == "table":
            self._rows = self.tables.setdefault(self._section, [])
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "svg" in self._open or "style" in self._open:
            return
        self.text[self._section] = self.text.get(self._section, "") + data
        if "td" in self._open or "th" in self._open:
            self._rows[-1][-1] = " ".join(f"{self._rows[-1][-1]} {data}".split())

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for found, attributes in self.elements if found == tag)

    def row(self, section: str, name: str) -> list[str]:
        return next(row[1:] for row in self.tables[section] if row[0].split(" this run")[0] == name)

    @property
    def lead(self) -> str:
        return " ".join(self.text["header"].split())


def page_of(run: Path, *against: Path) -> Page:
    return Page(write_report(run, against).read_text(encoding="utf-8"))


def markdown_of(run: Path) -> str:
    return (run / "report/report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run in which all went well."""
    return write_report(write_run(tmp_path_factory.mktemp("plain") / "run"))


# -- scores ------------------------------------------------------------------------------------------------------


def test_the_table_has_every_silo_at_every_point_and_the_roll_ups(plain: Path) -> None:
    page = Page(plain.read_text(encoding="utf-8"))
    rows = page.tables["scores"]
    assert rows[0] == ["Silo", "Questions", "Received", "Personal", "Best", "Personal − received"]  # noqa: RUF001
    assert [row[0] for row in rows[1:]] == ["ash", "birch", *ROLLED_UP]
    # ash, received 0 1 0 1: variance 1/3, error sqrt(1/12) = 0.288675, t with 3 degrees 3.182446: half width 0.918693
    assert page.row("scores", "ash")[:3] == ["4", "0.500 0.000 to 1.000", "0.750 0.000 to 1.000"]
    # gain at ash 0 0 1 0: mean 0.25, error 0.25, half width 0.795612
    assert page.row("scores", "ash")[4] == "+0.250 \u22120.546 to 1.046"
    # the mean of silos counts birch as much as ash, all questions do not: (0.75 + 1) / 2 against (3 + 2) / 6
    assert page.row("scores", "Mean of silos")[3].split()[0] == "0.875"
    assert page.row("scores", "All questions")[3].split()[0] == "0.833"
    assert page.row("scores", "Worst silo")[3] == "0.750 0.000 to 1.000 ash"


def test_markdown_has_the_same_numbers(plain: Path) -> None:
    line = next(line for line in markdown_of(plain.parents[1]).splitlines() if line.startswith("| ash"))
    share = "(0.000 to 1.000)"
    assert line.startswith(f"| ash | 4 | 0.500 {share} | 0.750 {share} | 0.750 {share} | +0.250")


def test_the_first_paragraph_says_who_trained_what_and_what_came_out(plain: Path) -> None:
    lead = Page(plain.read_text(encoding="utf-8")).lead
    assert "The 2 silos ash and birch trained the model tiny together for 2 rounds with fedavg" in lead
    # 0.875 as above; birch has no spread, so the error is ash's 0.25 halved, with 3 degrees: half width 0.397806
    assert "On 6 test questions" in lead
    assert "reach a MAP of 0.875 (95 % interval 0.477 to 1.000) in the mean of silos; the lowest is ash" in lead
    # gains 0 0 1 0 1 -1: mean 1/6, variance 17/30, error 0.307318, t with 5 degrees 2.570582: half width 0.789986
    assert "by +0.167 MAP per question (\u22120.623 to 0.957, p = 0.611): no clear difference" in lead
    # two rounds of 1000 and 2000 bytes, and 10 and 20 after them
    assert "2.0 kB left the silos and 4.0 kB came to them in 3.0 s; no answer was refused." in lead


def test_a_single_silo_has_no_roll_ups(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run", course(silos=["ash"]), {"ash": VALUES["ash"]}))
    assert [row[0] for row in page.tables["scores"]] == ["Silo", "ash"]
    assert "The silo ash trained" in page.lead
    assert "On 4 test questions, the model chosen on dev reaches a MAP of 0.750" in page.lead


def test_one_question_has_a_score_but_no_interval(tmp_path: Path) -> None:
    one = {"ash": {"received": [0.25], "personal": [0.5], "best": [0.5]}}
    page = page_of(write_run(tmp_path / "run", course(silos=["ash"]), one))
    assert page.row("scores", "ash") == ["1", "0.250", "0.500", "0.500", "+0.250"]


def test_silos_of_different_skills_are_told_with_their_own_metric(tmp_path: Path) -> None:
    plan = replace(course(), silos=(SiloPlan("ash"), SiloPlan("birch", "juggle")))
    page = page_of(write_run(tmp_path / "run", plan, metrics={"birch": "balls"}))
    assert page.row("scores", "ash")[0] == "MAP"
    assert page.row("scores", "birch")[0] == "balls"
    assert "reach a score of 0.875" in page.lead


def test_without_scores_per_question_a_gain_has_no_interval(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run", keep_values=False))
    assert page.row("scores", "ash")[4] == "+0.250"
    assert page.row("scores", "Mean of silos")[4] == "+0.125"
    assert "per question" not in page.lead


def test_a_silo_that_failed_at_the_end_is_missing_from_the_scores(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", values={"ash": VALUES["ash"]}, refused=[("birch", "died")])
    page = page_of(run)
    assert [row[0] for row in page.tables["scores"]] == ["Silo", "ash"]
    assert ["after the last", "birch", "the silo's process ended", "died"] in page.tables["refused"]


# -- parts that may be missing -----------------------------------------------------------------------------------


def test_a_model_that_was_not_trained_is_scored_all_the_same(tmp_path: Path) -> None:
    same = {silo: dict.fromkeys(points, points["best"]) for silo, points in VALUES.items()}
    page = page_of(write_run(tmp_path / "run", course("zero_shot"), same))
    assert "The 2 silos ash and birch scored the model tiny as it is loaded; nothing was trained." in page.lead
    assert "On 6 test questions, it reaches a MAP of 0.875" in page.lead
    assert not {"learning", "weights"} & page.text.keys()
    assert sorted(path.name for path in (tmp_path / "run/report").glob("*.svg")) == ["scores.svg"]


def test_a_run_that_was_never_scored_has_a_report(tmp_path: Path) -> None:
    plan = course(evaluation=Evaluation(every=0))
    rounds = [record(n, ["ash", "birch"], metrics={}) for n in (1, 2)]
    page = page_of(write_run(tmp_path / "run", plan, {"ash": {}, "birch": {}}, records=rounds))
    assert "Nothing was scored." in page.lead
    assert "scores" not in page.text
    assert sorted(path.stem for path in (tmp_path / "run/report").glob("*.svg")) == ["bytes", "loss"]


def test_a_run_without_environment_has_a_report(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "environment.json").unlink()
    assert "environment" not in page_of(run).text


def test_charts_of_an_earlier_report_are_removed(tmp_path: Path) -> None:
    run, other = write_run(tmp_path / "run"), write_run(tmp_path / "other", course("isolated"))
    write_report(run, [other])
    assert (run / "report/comparison.svg").exists()
    write_report(run)
    assert not (run / "report/comparison.svg").exists()


def test_a_run_that_is_still_going_on_has_no_report(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "result.json").unlink()
    with pytest.raises(RunError, match="has not ended; continue it with `fedqa train --resume`"):
        write_report(run)


# -- how it was trained ------------------------------------------------------------------------------------------


def test_refusals_are_told_in_words(tmp_path: Path) -> None:
    refused = [record(1, ["ash", "birch"]), record(2, ["ash", "birch"], refused=(("birch", "not_finite"),))]
    page = page_of(write_run(tmp_path / "run", records=refused))
    why = "the update holds values that are not finite numbers"
    assert page.tables["refused"][1:] == [["2", "birch", why, "not_finite"]]
    assert "1 answer was refused" in page.lead


def test_weights_are_means_over_the_rounds_that_counted(tmp_path: Path) -> None:
    rounds = [
        record(1, ["ash", "birch"], weights={"*": {"ash": 0.75, "birch": 0.25}}),
        record(2, ["ash", "birch"], accepted={"ash": WORK}, weights={"*": {"ash": 1.0}}),
        record(3, ["ash", "birch"], accepted={}, weights={}, void=True, metrics={}),
    ]
    page = page_of(write_run(tmp_path / "run", course(rounds=3), records=rounds))
    assert page.row("weights", "ash") == [
        "30",
        "2 of 3",
        "87.5\u202f% 75.0\u202f% to 100.0\u202f%".replace("\u202f", " "),
    ]
    assert page.row("weights", "birch")[2].startswith("12.5")
    assert "Too few updates were accepted in round 3" in page.text["weights"]


def test_a_run_in_which_every_silo_failed_is_told_as_such(tmp_path: Path) -> None:
    nobody = {
        "accepted": {},
        "weights": {},
        "metrics": {},
        "void": True,
        "refused": (("ash", "died"), ("birch", "died")),
    }
    page = page_of(write_run(tmp_path / "run", records=[record(n, ["ash", "birch"], **nobody) for n in (1, 2)]))
    assert "no update was accepted." in page.lead and "4 answers were refused" in page.lead
    assert "in rounds 1 and 2, so nothing was changed" in page.text["weights"]
    assert page.row("weights", "ash") == ["\u2013", "0 of 2"]


def test_models_of_their_own_have_a_row_of_weights_each(tmp_path: Path) -> None:
    stage = replace(course().stages[0], mixing=Mixing(Choice("identity")))
    own = {"ash": {"ash": 1.0, "birch": 0.0}, "birch": {"ash": 0.0, "birch": 1.0}}
    rounds = [record(n, ["ash", "birch"], weights=own) for n in (1, 2)]
    page = page_of(write_run(tmp_path / "run", course(stages=(stage,)), records=rounds))
    assert page.tables["weights"][-3] == ["Recipient", "ash", "birch"]
    assert page.tables["weights"][-1] == ["birch", "0.0 %", "100.0 %"]


def test_where_all_is_private_nothing_was_mixed(tmp_path: Path) -> None:
    alone = [
        record(n, ["ash", "birch"], accepted=dict.fromkeys(["ash", "birch"], replace(WORK, norm=0.0))) for n in (1, 2)
    ]
    page = page_of(write_run(tmp_path / "run", course("isolated"), records=alone))
    assert "trained the model tiny for 2 rounds, each alone (isolated)." in page.lead
    assert "Nothing was sent, so nothing was mixed." in page.text["weights"]


def test_pooled_examples_are_not_called_federated(tmp_path: Path) -> None:
    rounds = [record(n, ["pool"]) for n in (1, 2)]
    page = page_of(write_run(tmp_path / "run", course("central"), records=rounds))
    assert "gave all their examples to the coordinator" in page.lead
    assert "not a federated training" in page.lead
    assert "All examples were pooled at the coordinator" in page.text["weights"]
    assert "examples: all documents and examples, in clear" in page.text["course"]


def test_the_course_is_told_stage_by_stage_with_its_fingerprint(tmp_path: Path) -> None:
    first = replace(course("fedprox").stages[0], name="warm")
    second = replace(course("isolated", rounds=1).stages[0], name="alone")
    plan = course(stages=(first, second))
    page = page_of(write_run(tmp_path / "run", plan))
    told = page.text["course"]
    assert "Stage 1: warm, 2 rounds" in told and "Stage 2: alone, 1 round" in told
    assert "task + 0.01 \u00d7 prox" in told
    assert "all others: shared (received, trained and sent)" in told
    assert "all others: private (trained in the silo, never sent)" in told
    assert told.count("all others:") == 2  # a line behind `*` never matters
    assert plan.fingerprint in told
    assert "A new stage begins at each dotted line." in page.text["learning"]


def test_what_it_cost_is_told_in_bytes_and_seconds(plain: Path) -> None:
    page = Page(plain.read_text(encoding="utf-8"))
    costs: Mapping[str, str] = {row[0]: row[1] for row in page.tables["cost"]}
    assert costs["Time of all rounds"] == "3.0 s"
    assert costs["Bytes from the silos"] == "2.0 kB, 10 B of it after the last round"
    assert costs["Examples seen"] == "120, repeats counted"


# -- against other runs ------------------------------------------------------------------------------------------


def test_methods_are_compared_and_tested_against_the_first(tmp_path: Path) -> None:
    nothing = {silo: {**points, "best": [0] * len(points["best"])} for silo, points in VALUES.items()}
    run = write_run(tmp_path / "run")
    reference = write_run(tmp_path / "reference", course("isolated"), nothing)
    third = write_run(tmp_path / "third", course("fedprox"), nothing)
    page = page_of(run, reference, third)
    assert [row[0] for row in page.tables["comparison"]] == [
        "Method",
        "fedavg this run",
        "isolated reference",
        "fedprox",
    ]
    mine, fedprox = page.row("comparison", "fedavg"), page.row("comparison", "fedprox")
    # differences 0 1 1 1 and 1 1: mean 5/6, t = 5 with 5 degrees of freedom
    assert (mine[4].split()[0], mine[6]) == ("+0.833", "0.004")
    # no difference anywhere is no evidence; Holm doubles the smaller of two p and leaves the larger
    assert fedprox[4:] == ["0.000 0.000 to 0.000", "1.000", "1.000", "1.000"]
    assert mine[5] == mine[7] == "<0.001"  # all six must be drawn from the one question without gain
    assert page.row("comparison", "isolated reference")[4:] == ["\u2013"] * 4
    assert "Against isolated, the chosen models differ by +0.833 MAP per question" in page.lead
    assert "Of the 3 runs compared, fedavg has the highest mean of silos." in page.lead


def test_two_runs_of_one_method_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "long"), write_run(tmp_path / "short"))
    assert [row[0] for row in page.tables["comparison"][1:]] == ["fedavg (long) this run", "fedavg (short) reference"]


def test_runs_without_scores_per_question_are_shown_but_not_tested(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run", keep_values=False), write_run(tmp_path / "other", course("isolated")))
    assert page.row("comparison", "fedavg")[4:] == ["\u2013"] * 4
    assert "Against" not in page.lead


def test_a_run_of_another_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot be compared .* seed 8 is not 7"):
        write_report(write_run(tmp_path / "run"), [write_run(tmp_path / "other", course(seed=8))])


# -- the page ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with all its parts."""
    folder = tmp_path_factory.mktemp("full")
    run, other = write_run(folder / "run"), write_run(folder / "other", course("isolated"))
    return write_report(run, [other])


def test_the_page_is_complete_in_itself(full: Path) -> None:
    text = full.read_text(encoding="utf-8")
    assert not re.search(r"https?:|//\w|<script|<link|<img|<iframe|@import|url\((?!#)", text)
    for _, attributes in Page(text).elements:
        assert "src" not in attributes
        assert all((attributes.get(name) or "#").startswith("#") for name in ("href", "xlink:href"))


def test_the_page_can_be_read_without_seeing_it(full: Path) -> None:
    page = Page(full.read_text(encoding="utf-8"))
    assert next(page.all("html"))["lang"] == "en"
    headings = [tag for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert headings.count("h1") == 1 and headings[0] == "h1" and set(headings) <= {"h1", "h2", "h3"}
    assert all(attributes.get("scope") in ("col", "row") for attributes in page.all("th"))
    pictures = list(page.all("svg"))
    assert len(pictures) == 10  # five charts in two widths
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in pictures)
    assert all(a.get("tabindex") == "0" and a["aria-label"] for a in page.all("div") if a.get("role") == "region")


def test_ids_on_the_page_differ_and_links_lead_somewhere(full: Path) -> None:
    page = Page(full.read_text(encoding="utf-8"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [(attributes["href"] or "").removeprefix("#") for attributes in page.all("a")]
    assert links and set(links) <= set(ids)


def test_markdown_shows_charts_that_are_there(full: Path) -> None:
    text = markdown_of(full.parents[1])
    shown = re.findall(r"^!\[.+\]\(([a-z]+\.svg)\)$", text, flags=re.MULTILINE)
    assert sorted(shown) == sorted(path.name for path in full.parent.glob("*.svg"))
    assert len(shown) == 5


def test_markdown_tables_have_as_many_cells_in_every_row(full: Path) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", markdown_of(full.parents[1]), flags=re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1
        assert re.fullmatch(r"\|(:?-+:?\|)+", table.splitlines()[1])


def test_the_same_run_gives_the_same_bytes(full: Path, tmp_path: Path) -> None:
    again = write_report(write_run(tmp_path / "run"), [write_run(tmp_path / "other", course("isolated"))])
    assert sorted(path.name for path in again.parent.iterdir()) == sorted(path.name for path in full.parent.iterdir())
    for path in again.parent.iterdir():
        assert path.read_bytes() == (full.parent / path.name).read_bytes()


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    name = "<script>alert('x')</script> | *bold* [link](http://a.b) `code`"
    run = write_run(tmp_path / "run", course(name=name, model="<img src=x>"), metrics={"ash": "map", "birch": "map"})
    page = page_of(run)
    assert not list(page.all("script")) and not list(page.all("img"))
    assert name in page.text["header"] and "the model <img src=x> together" in page.lead
    title = markdown_of(run).splitlines()[0]
    assert title.startswith(r"# \<script\>alert('x')\</script\> \| \*bold\* \[link\](http://a.b) \`code\`")


def test_a_folder_name_with_markup_is_text_in_charts_too(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run"), write_run(tmp_path / "<i>$x$"))
    assert not list(page.all("i"))
    assert [row[0] for row in page.tables["comparison"][1:]][1] == "fedavg (<i>$x$) reference"


def test_markdown_characters_and_line_breaks_lose_their_meaning() -> None:
    assert plain_markdown("a|b\n# c_d") == r"a\|b \# c\_d"
    assert plain_markdown(3) == "3"


# -- real runs ---------------------------------------------------------------------------------------------------


def test_a_real_run_of_many_silos_shares_panels(tmp_path: Path) -> None:
    names = [f"silo-{i:02d}" for i in range(14)]
    rounds = [record(n, names) for n in (1, 2)]
    page = page_of(
        write_run(tmp_path / "run", course(silos=names), dict.fromkeys(names, VALUES["ash"]), records=rounds)
    )
    alts = [picture["aria-label"] or "" for picture in page.all("svg")]
    # received 0.4 in both rounds and 0.5 at the end
    assert "Lines: MAP on dev by round. mean of 14 silos received 0.400 to 0.500, personal 0.600 to 0.600." in alts
    assert "silo-00, silo-01, silo-02, silo-03, silo-04, silo-05, silo-06 and 7 others" in page.lead
    assert len(page.tables["scores"]) == 1 + 14 + 3


@pytest.mark.parametrize("method", ["fedavg", "central", "zero_shot"])
def test_what_the_coordinator_writes_can_be_reported(method: str, tmp_path: Path) -> None:
    plan, folder = toy_course(method, rounds=2), RunFolder(tmp_path)
    save_project(Project(plan, {}, Path()), tmp_path / "course.toml")
    _, outcome = toy_run(plan, tmp_path)
    folder.write_result(result_of(plan, folder.records(), outcome))
    page = page_of(tmp_path)
    assert [row[0] for row in page.tables["scores"][1:]] == ["ash", "birch", "cedar", "dogwood", *ROLLED_UP]
    assert "in the mean of silos" in page.lead
