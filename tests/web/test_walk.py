# SPDX-License-Identifier: Apache-2.0
"""The page as people use it: a real server, a real browser, a hospital that learns from a correction.

The steps build on one another and so stand in the order of the file. Pictures of what was seen are kept in the folder
that FEDQA_SHOTS names, else in a temporary one.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fedqa.data.records import Collection
from fedqa.data.sample import sample_silo
from fedqa.data.writing import written

sync_api = pytest.importorskip("playwright.sync_api", reason="the walk needs playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="the walk needs a browser called chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of playwright's own process
]
sys.path.append(str(Path(__file__).parents[1] / "intake"))
from intake_files import Draw, pdf  # noqa: E402

ROOT = Path(__file__).parents[2]
ARGUMENTS = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
PATIENCE, TRAINING = 60_000, 240_000  # milliseconds; with nothing else to do, the whole walk takes about one minute
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PASSWORD = "lark moor stone heron"

TITLES = "Memo: hand|Hazel|Visiting|Parking|Pain relief|MRI|Eating|Inhaler|Warfarin|Blood tests|Your medicines|wound"
SILO = """\
name = "hospital"
store = "hospital.sqlite"
[data]
format = "squad"
path = "hospital.json"
[runs]
match = "runs/page"
[training]
alliance = "alliance.toml"
[page]
title = "Larkmoor General Hospital"
"""
ALLIANCE = """\
name = "Larkmoor and Quarry Law"
method = "fedbn"
model = "embedded:3"
freeze_layers = 1
rounds = 3
[local]
learning_rate = 5e-4
[skills.match]
train_negatives = 1
[[silo]]
name = "hospital"
data = { format = "store", path = "hospital.sqlite" }
[[silo]]
name = "law"
data = { sample = "law" }
limit = 12
"""
EASY = "Which painkiller must I not take while breastfeeding?"
HARD = "May I wear my wedding ring on the ward?"
RIGHT = "the only jewellery allowed is one plain band"
NEWS = "The roof garden above Juniper Ward opens to patients on 3 May. Dogs may come on Sundays."


def write_silo(folder: Path) -> None:
    """Some of the sample hospital's documents, and the questions that rest on them."""
    whole = sample_silo("hospital")
    documents = tuple(document for document in whole.documents if re.search(TITLES, document.title))
    known = {document.id for document in documents}
    examples = tuple(example for example in whole.examples if example.documents and example.documents <= known)
    (folder / "hospital.json").write_bytes(written(Collection(documents, examples), "squad"))
    (folder / "silo.toml").write_text(SILO, encoding="utf-8")
    (folder / "alliance.toml").write_text(ALLIANCE, encoding="utf-8")
    lines = [Draw(60, 760, "News from the wards", 16, "F2"), Draw(60, 730, NEWS)]
    (folder / "news.pdf").write_bytes(pdf([lines], "News from the wards"))


@dataclass
class Walk:
    """A browser before a page that was just started, and what must never happen on the way."""

    browser: "sync_api.Browser"
    folder: Path
    shots: Path
    link: str  # by which the first owner comes in
    requests: set[str] = field(default_factory=set)  # hosts that were asked for anything
    complaints: list[str] = field(default_factory=list)  # of the browser's console

    @property
    def address(self) -> str:
        return self.link.partition("/join")[0]

    def visitor(self, size: dict[str, int] = WIDE) -> "sync_api.Page":
        context = self.browser.new_context(viewport=size, base_url=self.address)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("request", lambda request: self.requests.add(urlsplit(request.url).hostname or request.url[:20]))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        return page

    def shoot(self, page: "sync_api.Page", name: str, height: int = 0) -> None:
        before = page.viewport_size
        page.set_viewport_size(before | {"height": height or before["height"]})
        page.screenshot(path=self.shots / f"{name}-{before['width']}.png")
        page.set_viewport_size(before)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("walk")
    shots = Path(os.environ.get("FEDQA_SHOTS") or folder / "shots")
    shots.mkdir(parents=True, exist_ok=True)
    write_silo(folder)
    command = [sys.executable, "-u", "-m", "fedqa", "serve", str(folder / "silo.toml"), "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (
        (folder / "problems.log").open("wb") as problems,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=problems, text=True) as process,
        sync_api.sync_playwright() as playwright,
    ):
        assert process.stdout
        link = next(line.strip() for line in process.stdout if "/join?" in line)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        yield Walk(browser, folder, shots, link)
        browser.close()
        process.terminate()
    assert (folder / "problems.log").read_text(encoding="utf-8") == ""


@pytest.fixture(scope="module")
def owner(walk: Walk) -> "sync_api.Page":
    """The first person, who came by the link that the server printed."""
    page = walk.visitor()
    join(page, walk.link, "Olwen")
    return page


def join(page: "sync_api.Page", link: str, name: str) -> None:
    page.goto(link)
    page.get_by_label("Your name").fill(name)
    page.get_by_label("A password").fill(PASSWORD)
    page.get_by_role("button", name="Come in").click()
    page.get_by_label("Your question").wait_for()


def ask(page: "sync_api.Page", question: str) -> "sync_api.Locator":
    """Ask, and wait for the reply to this question."""
    page.goto("/")
    page.get_by_label("Your question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    reply = page.locator("#reply")
    reply.locator(".by").wait_for()
    return reply


FIND = """(words) => {
    const walker = document.createTreeWalker(document.querySelector("[data-choose]"), NodeFilter.SHOW_TEXT);
    let node;
    while ((node = walker.nextNode()) && !node.data.includes(words));
    const range = document.createRange(), start = node.data.indexOf(words);
    range.setStart(node, start);
    range.setEnd(node, start + words.length);
    return range;
}"""
SHOW = """(range) => {
    const box = document.querySelector("[data-choose]");
    box.scrollTop += range.getBoundingClientRect().top - box.getBoundingClientRect().top - 60;
    box.scrollIntoView({ block: "center" });
}"""
PLACE = """(range) => {
    const lines = range.getClientRects(), first = lines[0], last = lines[lines.length - 1];
    return [first.left + 1, first.top + first.height / 2, last.right - 1, last.top + last.height / 2];
}"""


def select(page: "sync_api.Page", words: str) -> None:
    """With the mouse, from the first letter to the last, once they stand still."""
    page.wait_for_load_state("networkidle")
    range_of = page.evaluate_handle(FIND, words)
    range_of.evaluate(SHOW)
    place: list[float] = []
    while place != (now := range_of.evaluate(PLACE)):
        place = now
        page.wait_for_timeout(150)
    page.mouse.move(*place[:2])
    page.mouse.down()
    page.mouse.move(*place[2:], steps=5)
    page.mouse.up()


def width(page: "sync_api.Page") -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))


# -- the walk ------------------------------------------------------------------------------------------------------


def test_the_link_works_once_and_the_owner_can_sign_in_again(walk: Walk, owner: "sync_api.Page") -> None:
    again = walk.visitor()
    assert again.request.get(walk.link).status == 404
    again.goto("/documents")
    assert "/login" in again.url
    again.get_by_label("Name").fill("Olwen")
    again.get_by_label("Password").fill(PASSWORD)
    again.get_by_role("button", name="Sign in").click()
    again.wait_for_url("**/documents")
    again.context.close()


def test_an_answer_is_highlighted_where_it_stands(walk: Walk, owner: "sync_api.Page") -> None:
    reply = ask(owner, EASY)
    assert "Codeine" in reply.locator(".given").first.inner_text()
    assert "Codeine" in reply.locator("mark").first.inner_text()
    assert reply.get_by_role("link", name="Pain relief after your operation").first.is_visible()
    walk.shoot(owner, "ask")


def test_a_correction_is_made_by_selecting_words_with_the_mouse(walk: Walk, owner: "sync_api.Page") -> None:
    reply = ask(owner, HARD)
    assert "jewellery" not in reply.inner_text()
    reply.get_by_role("link", name=re.compile("Show where it stands|Wrong: correct it")).click()
    if not owner.get_by_role("searchbox").is_visible():
        owner.locator("summary", has_text="Choose another document").click()
    owner.get_by_role("searchbox").fill("bare below the elbow")
    owner.get_by_role("button", name="Find").click()
    owner.locator(".found").get_by_role("link", name="Memo: hand hygiene audit").click()
    select(owner, RIGHT)
    chosen = owner.get_by_label("Answer, in the document")
    sync_api.expect(chosen).to_have_value(RIGHT)
    owner.evaluate("scrollTo(0, 0)")
    walk.shoot(owner, "correct", height=1080)
    owner.get_by_role("button", name="Save this answer").click()
    owner.get_by_text("learned in the next training").wait_for()
    owner.goto("/examples?origin=corrected")
    assert HARD in owner.locator("main").inner_text()
    assert RIGHT in ask(owner, HARD).locator(".by-people .given").first.inner_text()


def test_after_a_training_the_model_itself_is_right_and_the_page_says_since_when(
    walk: Walk, owner: "sync_api.Page"
) -> None:
    owner.goto("/training")
    owner.get_by_role("link", name="Read and approve the course").click()
    assert "never sent" in owner.locator("main").inner_text()
    owner.get_by_role("button", name="Approve").click()
    owner.get_by_role("button", name="Train").click()
    owner.locator("progress").wait_for()
    owner.locator("#now .badge", has_text="Finished").wait_for(timeout=TRAINING)
    assert owner.locator("#rounds td", has_text="2 of 2 silos").count() == 3
    learned = owner.locator("#learned li", has_text=HARD)
    assert re.search(r"learned in round [1-3]", learned.inner_text())
    walk.shoot(owner, "training", height=1400)
    owner.goto("/examples?origin=corrected")
    assert re.search(r"learned in round [1-3]", owner.locator("main").inner_text())
    reply = ask(owner, HARD)
    while "fedbn" not in reply.locator(".by").inner_text():  # the new model is taken up within seconds
        owner.wait_for_timeout(1000)
        reply = ask(owner, HARD)
    reply.get_by_text("What the model finds").click()
    assert "jewellery" in reply.locator("details .passage mark").first.inner_text()
    owner.goto("/training")
    while not learned.get_by_text("answered right").count():  # it is asked again of the desk, soon after
        owner.wait_for_timeout(1000)
        owner.reload()
    owner.goto("/ledger")
    assert "how the shared part of the model changed" in owner.locator("main").inner_text()
    assert "Complete and unaltered" in owner.locator("main").inner_text()


def test_a_pdf_is_added_and_answers_at_once(walk: Walk, owner: "sync_api.Page") -> None:
    owner.goto("/documents/add")
    owner.get_by_label("Files").set_input_files(walk.folder / "news.pdf")
    owner.get_by_role("button", name="Add").first.click()
    owner.get_by_role("link", name="News from the wards").wait_for()
    reply = ask(owner, "When does the roof garden open?")
    assert "3 May" in reply.locator("mark").first.inner_text()


def test_a_reader_asks_and_cannot_correct(walk: Walk, owner: "sync_api.Page") -> None:
    owner.goto("/people")
    owner.get_by_label("Name", exact=True).fill("Rhys")
    owner.get_by_role("button", name="Make a link").click()
    link = owner.get_by_label("Link").input_value()
    reader = walk.visitor()
    join(reader, link, "Rhys")
    reply = ask(reader, EASY)
    assert "Codeine" in reply.inner_text()
    assert reply.get_by_role("link", name=re.compile("correct", re.IGNORECASE)).count() == 0
    assert reader.get_by_role("link", name="Examples").count() == 0
    for path in ("/correct", "/examples", "/documents/add", "/people"):
        assert reader.request.get(path).status == 403, path
    reader.goto("/training")
    assert reader.get_by_role("button", name="Train").count() == 0
    reader.context.close()


def test_everything_on_ask_can_be_done_with_the_keyboard(walk: Walk, owner: "sync_api.Page") -> None:
    owner.goto("/training")
    owner.keyboard.press("Tab")
    assert focused(owner) == "Skip to the content"
    owner.keyboard.press("/")
    owner.wait_for_url("**/")
    assert focused(owner) == "question"
    owner.keyboard.type(EASY)
    owner.keyboard.press("Enter")
    owner.locator("#reply .by").wait_for()
    reached = []
    while "Right" not in reached and len(reached) < 12:
        owner.keyboard.press("Tab")
        reached.append(focused(owner))
        assert owner.evaluate("document.activeElement.matches(':focus-visible')"), reached
    assert reached[-1] == "Right", reached
    owner.keyboard.press("Enter")
    owner.locator("[data-judging]", has_text="Thank you").wait_for()


def focused(page: "sync_api.Page") -> str:
    return str(page.evaluate("document.activeElement.innerText || document.activeElement.id"))


def test_nothing_is_wider_than_a_phone(walk: Walk, owner: "sync_api.Page") -> None:
    paths = ("/documents", "/examples", "/training", "/training/course", "/ledger", "/people", "/correct", "/account")
    phone = walk.visitor(PHONE)
    phone.context.add_cookies(owner.context.cookies())
    ask(phone, EASY)
    assert width(phone) <= PHONE["width"]
    walk.shoot(phone, "ask")
    for path in paths:
        phone.goto(path)
        assert width(phone) <= PHONE["width"], path
        walk.shoot(phone, path.strip("/").replace("/", "-"))
    for path in paths:
        owner.goto(path)
        assert width(owner) <= WIDE["width"], path
        walk.shoot(owner, f"room-{path.strip('/').replace('/', '-')}")
    phone.context.close()


def test_nothing_was_asked_of_another_machine_and_no_script_complained(walk: Walk, owner: "sync_api.Page") -> None:
    assert walk.requests == {"127.0.0.1"}
    assert walk.complaints == []
