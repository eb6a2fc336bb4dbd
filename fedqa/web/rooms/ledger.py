# SPDX-License-Identifier: Apache-2.0
"""The room that shows all that ever left this silo."""

from dataclasses import asdict, dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from fedqa.store import Listing
from fedqa.web.ledgers import RunTold, Told, Wanted, kinds, ledgers, to_csv
from fedqa.web.page import Page, Reader
from fedqa.web.plain_words import KINDS

AT_ONCE = 50
Text = Annotated[str, Query(max_length=200)]
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=1000)]


@dataclass(frozen=True)
class LedgerPage:
    items: list[Told]
    total: int
    runs: list[RunTold]


def router(page: Page) -> APIRouter:
    routes = APIRouter()

    @routes.get("/ledger", include_in_schema=False)
    def show(
        request: Request, person: Reader, run: Text = "", kind: Text = "", digest: Text = "", offset: Offset = 0
    ) -> Response:
        found, wanted = ledgers(page.settings), Wanted(run, kind, digest)
        messages = wanted.of(found)
        return page.show(
            request,
            "ledger.html",
            ledgers=found,
            listing=Listing(tuple(messages[offset : offset + AT_ONCE]), len(messages)),
            kinds={name: KINDS[name][0] if name in KINDS else name for name in kinds(found)},
            wanted={"run": run, "kind": kind, "digest": digest},
            at_once=AT_ONCE,
            offset=offset,
        )

    @routes.get("/ledger.csv", include_in_schema=False)
    def as_csv(person: Reader, run: Text = "", kind: Text = "", digest: Text = "") -> Response:
        messages = Wanted(run, kind, digest).of(ledgers(page.settings))
        return Response(to_csv(messages), media_type="text/csv; charset=utf-8", headers=_named("csv"))

    @routes.get("/ledger.json", include_in_schema=False)
    def as_json(person: Reader, run: Text = "", kind: Text = "", digest: Text = "") -> Response:
        messages = Wanted(run, kind, digest).of(ledgers(page.settings))
        return JSONResponse([asdict(message.told) for message in messages], headers=_named("json"))

    @routes.get("/api/ledger", tags=["ledger"])
    def api_ledger(
        person: Reader, run: Text = "", kind: Text = "", digest: Text = "", limit: Limit = AT_ONCE, offset: Offset = 0
    ) -> LedgerPage:
        """All that left this silo, newest first."""
        found = ledgers(page.settings)
        messages = Wanted(run, kind, digest).of(found)
        items = [message.told for message in messages[offset : offset + limit]]
        return LedgerPage(items, len(messages), [ledger.told for ledger in found])

    return routes


def _named(ending: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="ledger.{ending}"'}
