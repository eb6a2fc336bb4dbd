# SPDX-License-Identifier: Apache-2.0
"""The page with a real store and a toy desk, and people of every role who use it."""

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from httpx2 import Response
from starlette.testclient import TestClient

from fedqa.answering.answers import Answer, Reply
from fedqa.answering.querying import QueryAnswer, Record
from fedqa.answering.reception import BY_KEYWORDS
from fedqa.answering.saying import sentence
from fedqa.data.passages import Passage, passages
from fedqa.data.records import Document
from fedqa.data.sentences import sentences_of
from fedqa.databases.database import Database
from fedqa.databases.records import Table
from fedqa.settings import PageSettings, Settings
from fedqa.store import ROLES, Role, Store
from fedqa.web.app import whole_app

ADDRESS = "http://127.0.0.1:8642"
PASSWORD = "four words are good"
NAMES: dict[Role, str] = {"reader": "Rita", "editor": "Edda", "owner": "Otto"}
GUIDE = (
    "Visiting hours on Ward 3 are from 14:00 to 19:00. Children need an adult with them.\n\n"
    "The pharmacy is on the ground floor. It opens at 8:30."
)


KNOWN_QUERIES = {
    "How many wards are there?": "SELECT COUNT(*) FROM wards",
    "Which wards are on floor 3?": "SELECT name, beds FROM wards WHERE floor = 3",
}


@dataclass
class ToyDesk:
    """Answers by shared words. The answer is what follows the last shared word in the best sentence.

    Until it is `loaded`, it says that it answers as a reception does.
    """

    store: Store
    documents: list[Document] = field(default_factory=list)
    refreshed: int = 0
    checked: dict[str, bool] = field(default_factory=dict)
    ready: bool = True
    loaded: bool = True
    database: "ToyDatabaseDesk | None" = None

    def refresh(self) -> None:
        self.refreshed += 1
        self.documents = self.store.all_documents()

    def ask(self, question: str, k: int = 3) -> Reply:
        asked = _words(question)
        found = [
            (len(asked & _words(sentence.text)) / max(1, len(asked)), document, passage, sentence)
            for document in self.documents
            for passage in passages(document)
            for sentence in sentences_of(passage)
        ]
        best = sorted(found, key=lambda one: -one[0])[:k]
        answers = tuple(_answer(*one, asked) for one in best if one[0] > 0)
        answered = bool(answers) and (answers[0].confidence >= 0.5 or not self.loaded)
        model = "a toy, round 2" if self.loaded else BY_KEYWORDS
        return Reply(question, answers, answered, self.store.verified(question), 0.2, model, not self.loaded)


def _answer(score: float, document: Document, passage: Passage, sentence: Passage, asked: set[str]) -> Answer:
    text = sentence.text
    shared = [match.end() for match in re.finditer(r"\w+", text) if match[0].lower() in asked]
    start = shared[-1] if shared and len(text) - shared[-1] > 2 else 0
    words = text[start:].strip(" .")
    begins = sentence.start + text.index(words, start)
    return Answer(
        document=document.id,
        title=document.title,
        passage=passage.text,
        evidence=text,
        start=sentence.start,
        end=sentence.end,
        score=score,
        confidence=min(score, 0.97),
        answer=words,
        answer_start=begins,
        answer_end=begins + len(words),
    )


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 2} - {"the", "are", "what", "when"}


@dataclass
class ToyDatabaseDesk:
    """The sample hospital's database, and a model that knows two questions by heart."""

    database: Database
    words: str = "a toy, round 3"

    def ask(self, question: str) -> QueryAnswer:
        sql = KNOWN_QUERIES.get(question, "")
        table = self.database.run(sql) if sql else None
        said = (
            sentence(question, table) if table else "No answer: of the 5 queries that the model wrote, none can be run."
        )
        return QueryAnswer(question, sql, table, said, 1, 5, -0.1, Record("ex", 0.5, 30))

    def run(self, sql: str) -> Table:
        return self.database.run(sql)


def fill(path: Path) -> None:
    """A store with a person of every role and a document."""
    with Store.open(path) as store:
        for role in ROLES:
            store.people().accept(store.people().invite(role), NAMES[role], PASSWORD)
        store.add_document(GUIDE, "Guide for visitors", source="guide.txt", who="Edda")


class Visitor(TestClient):
    """A browser: it keeps cookies, and sends with a form the token of the page it stands on."""

    def token(self, path: str = "/account") -> str:
        found = re.search(r'name="token" value="([0-9a-f]{64})"', self.get(path).text)
        assert found, f"{path} has no form"
        return found[1]

    def submit(self, path: str, /, *, at: str = "/account", **fields: object) -> Response:
        """Fill in a form, send it, and stay where the answer is: redirects are not followed."""
        return self.post(path, data={"token": self.token(at), **fields}, follow_redirects=False)


class Silo:
    """A silo's store, desk and page in a folder."""

    def __init__(self, folder: Path, filled: Path, database: ToyDatabaseDesk | None = None) -> None:
        shutil.copy(filled, folder / "silo.sqlite")
        self.store = Store.open(folder / "silo.sqlite")
        self.settings = Settings(
            path=folder / "silo.toml",
            name="hospital",
            store=folder / "silo.sqlite",
            runs={"parse": folder / "run"} if database else {},
            page=PageSettings(title="Larkmoor General"),
        )
        self.desk = ToyDesk(self.store, database=database)
        self.desk.refresh()
        self.app = whole_app(self.settings, self.store, self.desk)  # type: ignore[arg-type]

    @property
    def guide(self) -> str:
        """The id of the document it has."""
        return self.store.documents("Guide for visitors").items[0].document.id

    def visitor(self, role: Role | None = None, address: str = ADDRESS) -> Visitor:
        """A browser of nobody, or of the person of a role."""
        visitor = Visitor(self.app, base_url=address, raise_server_exceptions=False)
        if role:
            visitor.cookies.set("fedqa-session-8642", self.session(role))
        return visitor

    def session(self, role: Role) -> str:
        person = next(one for one in self.store.people().all() if one.role == role)
        return self.store.people().start_session(person)
