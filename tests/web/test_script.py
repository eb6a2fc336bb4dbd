# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: its script, its keys, its colours, and the same without a script."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from web_toys import GUIDE, Silo

from fedqa.store import Role

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on this machine")]

EMOJI = "Zuerst 👩‍⚕️ um 7 Uhr.\n\n\tDie Ärztin geht um 16 Uhr. Cafe\u0301 & <b>Tee</b>.\n  Um 7 Uhr kommt sie wieder."
# The contrast of every visible text with the ground it stands on, as WCAG counts it; too low ones are returned.
CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] === 1) return c; } return [255, 255, 255]; };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement, style = getComputedStyle(e);
    if (!node.data.trim() || !e.checkVisibility() || e.closest(".unseen, .skip")) continue;
    const [a, b] = [light(parse(style.color)), light(ground(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${e.className || e.tagName}: ${node.data.trim().slice(0, 30)}`);
  }
  return low;
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = started.chromium.launch(executable_path=PROGRAM, args=options)
        yield browser
        browser.close()


class Browser:
    """Windows of one person, and all that went wrong in them."""

    def __init__(self, chromium: object, silo: Silo, address: str) -> None:
        self.chromium, self.silo, self.address = chromium, silo, address
        self.wrong: list[str] = []

    @contextmanager
    def window(self, role: Role | None = "editor", width: int = 1280, **options: object) -> Iterator[object]:
        context = self.chromium.new_context(viewport={"width": width, "height": 800}, **options)
        if role:
            session = {"name": "fedqa-session-8642", "value": self.silo.session(role), "url": self.address}
            context.add_cookies([session])
        context.set_default_timeout(15_000)
        window = context.new_page()
        window.on("console", lambda line: self.wrong.append(line.text) if line.type in ("error", "warning") else None)
        window.on("pageerror", lambda problem: self.wrong.append(str(problem)))
        window.on("request", lambda sent: None if sent.url.startswith(self.address) else self.wrong.append(sent.url))
        yield window
        context.close()


@pytest.fixture
def browser(chromium: object, silo: Silo, address: str) -> Iterator[Browser]:
    made = Browser(chromium, silo, address)
    yield made
    assert made.wrong == [], "errors, refusals of the content policy, or requests to elsewhere"


def _select(window: object, start: int, end: int) -> None:
    """Select code points of the document as a person would with the mouse."""
    window.evaluate(
        """([start, end]) => {
          const box = document.querySelector("[data-choose]"), points = [...box.textContent];
          const units = [start, end].map((n) => points.slice(0, n).join("").length);
          const nodes = document.createTreeWalker(box, NodeFilter.SHOW_TEXT), range = document.createRange();
          let seen = 0, node;
          while ((node = nodes.nextNode())) {
            if (units[0] >= seen && units[0] < seen + node.length) range.setStart(node, units[0] - seen);
            if (units[1] > seen && units[1] <= seen + node.length) range.setEnd(node, units[1] - seen);
            seen += node.length;
          }
          getSelection().removeAllRanges();
          getSelection().addRange(range);
        }""",
        [start, end],
    )
    window.wait_for_timeout(250)


def test_a_question_is_answered_in_place_and_judged(browser: Browser) -> None:
    with browser.window("reader") as window:
        window.goto(browser.address)
        window.focus(".brand")
        window.keyboard.press("/")
        window.keyboard.type("What are the visiting hours on Ward 3?")
        window.keyboard.press("Enter")
        window.wait_for_selector("#reply mark")
        assert window.inner_text("#reply mark") == "3 are from 14:00 to 19:00"
        assert window.inner_text("#recent button") == "What are the visiting hours on Ward 3?"
        assert window.url == f"{browser.address}/"
        window.click("button:text-is('Right')")
        window.wait_for_selector("text=Thank you")
    assert browser.silo.store.asked().items[0].verdict == "right"


def test_the_database_is_asked_in_place_and_its_query_corrected(browser: Browser) -> None:
    with browser.window("editor") as window:
        window.goto(f"{browser.address}/database")
        window.keyboard.type("Which wards are on floor 3?")  # the field has the focus
        window.keyboard.press("Enter")
        window.wait_for_selector("#reply table")
        assert window.inner_text("#reply .given") == "2 rows: Cedar (60) and Rowan (48)."
        assert window.inner_text("#reply pre") == "SELECT name, beds FROM wards WHERE floor = 3"
        window.click("text=Wrong: correct it")
        window.fill("#sql", "SELECT name FROM wards WHERE floor = 3 ORDER BY name DESC")
        window.click("text=Try it")
        window.wait_for_selector("text=2 rows: Rowan and Cedar.")
        window.click("text=Save: this is right")
        window.wait_for_selector("text=This query is used from now on")
        window.click("#recent button")
        window.wait_for_selector("text=Answered by a query that people here gave")
        assert window.inner_text("#reply .given >> nth=0") == "2 rows: Rowan and Cedar."


def test_a_hint_is_shown_only_when_the_answer_takes_long(browser: Browser) -> None:
    quick, go_on = browser.silo.desk.ask, threading.Event()

    def slow(question: str, k: int) -> object:
        go_on.wait(10)
        return quick(question, k)

    browser.silo.desk.ask = slow
    with browser.window("reader") as window:
        window.goto(browser.address)
        window.fill("#question", "Where is the pharmacy?")
        window.keyboard.press("Enter")
        window.wait_for_selector("[data-waiting]:not([hidden])")
        go_on.set()
        window.wait_for_selector("#reply mark")
        assert window.is_hidden("[data-waiting]")


def test_an_answer_by_keywords_is_replaced_by_itself(browser: Browser) -> None:
    browser.silo.desk.loaded = False
    with browser.window("reader", 390) as window:
        window.goto(browser.address)
        window.fill("#question", "Where is the pharmacy?")
        window.keyboard.press("Enter")
        window.wait_for_selector("#reply .provisional")
        assert "their answer will be here in a few seconds" in window.inner_text("#reply .provisional")
        assert window.is_hidden("#reply .provisional button")
        assert window.inner_text("#reply mark") == "is on the ground floor"
        assert window.evaluate(CONTRAST) == []
        assert window.evaluate("document.documentElement.scrollWidth") <= 390
        window.fill("#question", "What I ask ne")  # somebody goes on typing
        window.focus("#reply .source a")
        window.wait_for_timeout(1200)  # in which it is looked whether the models are there
        assert window.is_visible("#reply .provisional")
        browser.silo.desk.loaded = True
        window.wait_for_selector("#reply .sure")
        assert window.query_selector("#reply .provisional") is None
        assert window.input_value("#question") == "What I ask ne"
        assert window.evaluate("document.activeElement.id") == "reply"
        window.click("button:text-is('Right')")
        window.wait_for_selector("text=Thank you")
    (asked,) = browser.silo.store.asked().items
    assert (asked.model, asked.verdict) == ("a toy, round 2", "right")


def test_an_answer_by_keywords_is_asked_again_without_a_script(browser: Browser) -> None:
    browser.silo.desk.loaded = False
    with browser.window("reader", java_script_enabled=False) as window:
        window.goto(browser.address)
        window.fill("#question", "Where is the pharmacy?")
        window.keyboard.press("Enter")
        assert "in a few seconds they can answer" in window.inner_text("#reply .provisional")
        browser.silo.desk.loaded = True
        window.click("text=Ask again")
        assert window.is_visible("#reply .sure") and window.is_hidden("#reply .provisional")
    assert [asked.model for asked in browser.silo.store.asked().items] == ["a toy, round 2"]


def test_selected_text_is_sent_in_code_points(browser: Browser) -> None:
    document = browser.silo.store.add_document(EMOJI, "Emoji", source="x", who="Edda")
    with browser.window() as window:
        window.goto(f"{browser.address}/correct?document={document.id}")
        assert window.eval_on_selector("[data-choose]", "box => box.textContent") == document.text
        for words in ("👩‍⚕️ um 7 Uhr", "16 Uhr", "Cafe\u0301 & <b>Tee</b>", "Tee</b>.\n  Um 7", "Die"):
            start = document.text.index(words)
            _select(window, start, start + len(words))
            assert window.input_value("[data-words]") == words
            assert window.input_value("[data-start]") == str(start)
            assert window.input_value("[data-end]") == str(start + len(words))
        _select(window, document.text.index("16") - 1, document.text.index("16") + 7)  # with a space, and a full stop
        assert window.input_value("[data-words]") == "16 Uhr."
        window.fill("#question", "Wann geht sie?")
        window.click("text=Save this answer")
        window.wait_for_selector("text=Thank you")
    assert browser.silo.store.verified("Wann geht sie?").example.answers == ("16 Uhr.",)


def test_an_answer_is_chosen_with_the_keyboard_alone(browser: Browser) -> None:
    with browser.window() as window:
        window.goto(f"{browser.address}/correct?document={browser.silo.guide}")
        window.focus("#question")
        window.keyboard.type("Who needs an adult?")
        window.keyboard.press("Tab")
        window.keyboard.press("ArrowDown")
        assert window.input_value("[data-words]") == "Visiting hours on Ward 3 are from 14:00 to 19:00."
        window.keyboard.press("ArrowDown")
        assert window.input_value("[data-words]") == "Children need an adult with them."
        window.keyboard.press("ArrowRight")
        assert window.input_value("[data-words]") == "The"
        window.keyboard.press("ArrowLeft")
        window.keyboard.press("Shift+ArrowLeft")
        assert window.input_value("[data-words]") == "with them"
        window.keyboard.press("Shift+ArrowRight")
        assert window.input_value("[data-words]") == "them"
        window.keyboard.press("Escape")
        assert window.input_value("[data-words]") == "" and window.input_value("[data-start]") == ""
        window.keyboard.press("ArrowDown")
        window.keyboard.press("ArrowDown")
        window.keyboard.press("ArrowUp")
        window.keyboard.press("ArrowDown")
        window.keyboard.press("Enter")
        window.keyboard.press("Enter")
        window.wait_for_selector("text=Thank you")
    stored = browser.silo.store.verified("Who needs an adult?")
    assert stored.example.answers == ("Children need an adult with them.",)


def test_typed_words_are_looked_up(browser: Browser) -> None:
    with browser.window() as window:
        window.goto(f"{browser.address}/correct?document={browser.silo.guide}")
        for words, said, start in (
            ("ground floor", "Found in the text.", str(GUIDE.index("ground floor"))),
            ("on", "more than once", ""),
            ("in the cellar", "do not stand", ""),
        ):
            window.fill("[data-words]", words)
            window.wait_for_selector(f"[data-found]:has-text('{said}')")
            assert window.input_value("[data-start]") == start


def test_everything_works_without_a_script(browser: Browser) -> None:
    with browser.window(java_script_enabled=False) as window:
        window.goto(browser.address)
        window.fill("#question", "Where is the pharmacy?")
        window.keyboard.press("Enter")
        assert window.inner_text("#reply mark") == "is on the ground floor"
        window.click("text=Wrong: correct it")
        window.fill("[data-words]", "ground floor")
        window.click("text=Save this answer")
        assert "Thank you" in window.inner_text(".said")
    assert browser.silo.store.verified("Where is the pharmacy?").example.answers == ("ground floor",)


def test_files_are_sent_and_their_button_says_so(browser: Browser) -> None:
    with browser.window() as window:
        window.goto(f"{browser.address}/documents/add")
        yard = {"name": "yard.txt", "mimeType": "text/plain", "buffer": b"Bicycles stand in the yard."}
        window.set_input_files("#files", yard)
        window.click("form:has(#files) button")
        window.wait_for_selector("text=1 document is ready for questions")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_and_fit_on_a_telephone(browser: Browser, scheme: str) -> None:
    guide = browser.silo.guide
    plain = ("/", "/documents", "/documents/add", "/examples", "/examples/import", "/correct", "/account", "/people")
    plain += ("/database", "/database/correct")
    special = (f"/documents/view?id={guide}&start=0&end=8", f"/correct?document={guide}")
    with browser.window("owner", 390, color_scheme=scheme, reduced_motion="reduce") as window:
        for path in (*plain, *special, "/training", "/ledger", "/api/docs"):
            window.goto(browser.address + path)
            assert window.evaluate(CONTRAST) == [], path
            assert window.evaluate("document.documentElement.scrollWidth") <= 390, path
            unnamed = "input:not([type=hidden]), select, textarea"
            labels = "all => all.filter((e) => !e.labels.length && !e.ariaLabel).map((e) => e.outerHTML)"
            assert window.eval_on_selector_all(unnamed, labels) == [], path
            twice = "all => all.map((e) => e.id).filter((id, i, ids) => ids.indexOf(id) !== i)"
            assert window.eval_on_selector_all("[id]", twice) == [], path
        window.goto(browser.address)
        window.fill("#question", "Where is the pharmacy?")
        window.keyboard.press("Enter")
        window.wait_for_selector("#reply mark")
        assert window.evaluate(CONTRAST) == []
        window.goto(f"{browser.address}/database")
        window.fill("#question", "Which wards are on floor 3?")
        window.keyboard.press("Enter")
        window.wait_for_selector("#reply pre.sql")
        assert window.evaluate(CONTRAST) == []
        assert window.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_long_document_opens_at_the_place_one_came_for(browser: Browser) -> None:
    text = "Something else.\n\n" * 300 + "Here it stands." + "\n\nSomething else." * 300
    document = browser.silo.store.add_document(text, "Long", source="x", who="Edda")
    start = document.text.index("Here")
    with browser.window("owner", 390) as window:
        window.goto(f"{browser.address}/documents/view?id={document.id}&start={start}&end={start + 4}#here")
        top = "document.querySelector('#here').getBoundingClientRect().top"
        assert 0 <= window.evaluate(top) < 800
        window.goto(f"{browser.address}/correct?document={document.id}&start={start}&end={start + 4}")
        box = "document.querySelector('[data-choose]').getBoundingClientRect()"
        before = "document.querySelector('[data-before]').getBoundingClientRect()"
        assert window.evaluate(f"{before}.top > {box}.top && {before}.bottom < {box}.bottom")
        window.goto(f"{browser.address}/people")
        menu = "document.querySelector('.top [aria-current]').getBoundingClientRect()"
        assert window.evaluate(f"{menu}.right <= 390 && {menu}.left >= 0"), "the room one is in is seen in the menu"


def test_the_first_tab_offers_to_skip_the_menu(browser: Browser) -> None:
    with browser.window() as window:
        window.goto(f"{browser.address}/documents")
        window.keyboard.press("Tab")
        assert window.evaluate("document.activeElement.className") == "skip"
        window.keyboard.press("Enter")
        assert window.evaluate("document.activeElement.id") == "main"
