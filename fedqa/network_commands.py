# SPDX-License-Identifier: Apache-2.0
"""The commands of an alliance over the network: coordinator init and start, join, status, stop, leave."""

import getpass
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedqa.errors import ConfigError, RunError

if TYPE_CHECKING:
    from fedqa.joining import Joining
    from fedqa.presence import Presence

coordinator = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="An alliance whose silos are on machines of their own."
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a coordinator or of a silo.")]
Home = Annotated[Path, typer.Argument(metavar="DIR", help="What `coordinator init --out` was given.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file, such as local.batch=8."),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(coordinator, name="coordinator")
    for command in (join, status, stop, leave):
        app.command()(command)


@coordinator.command("init")
def make_coordinator(
    alliance: Annotated[Path, typer.Argument(metavar="ALLIANCE.toml", help="Silos need a name here, and no data.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for the coordinator.")],
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where silos reach it.")],
    days: Annotated[int, typer.Option(min=1, metavar="N", help="That certificates are valid.")] = 730,
    changes: Changes = None,
) -> None:
    """Make keys, certificates and an invitation for each silo."""
    from fedqa.coordinating import init

    for path in init(alliance, out, address, days=days, changes=changes or ()):
        typer.echo(f"hand over as you would a password: {path}")
    typer.echo(f"then: {shlex.join(['fedqa', 'coordinator', 'start', str(out)])}")


@coordinator.command("start")
def start_coordinator(
    folder: Home,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Instead of all addresses of this machine.")
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="For all silos; then the quorum is enough.")
    ] = 600.0,
    as_json: Json = False,
) -> None:
    """Run the course with those who join; started again, it goes on."""
    from fedqa.console import RunWatcher, make_console
    from fedqa.coordinating import Desk

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with RunWatcher(make_console(stderr=True)) as watcher:
            result = Desk(folder, watcher, watcher.say).run(listen=listen, wait_s=wait)
    except KeyboardInterrupt:
        again = shlex.join(["fedqa", "coordinator", "start", str(folder)])
        typer.echo(f"fedqa: interrupted; go on with: {again}", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show_scores(folder / "run")


def join(
    invitation: Annotated[Path, typer.Argument(metavar="INVITATION", help="The file from the coordinator.")],
    data: Annotated[Path, typer.Option(metavar="SILO.toml", help="A silo's own file, or one with [data].")],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="What the silo keeps; by default beside the invitation.")
    ] = None,
    approve: Annotated[
        str | None, typer.Option(metavar="FINGERPRINT", help="Approve this course without being asked.")
    ] = None,
) -> None:
    """Join an alliance: check data, see what leaves, take part.

    Started again, it goes on without asking. Only the invitation's coordinator is contacted, and no port is opened.
    """
    from fedqa.engines.network.identities import read_invitation
    from fedqa.joining import Joining

    asked = read_invitation(invitation)
    joining = Joining(asked, folder or invitation.parent / asked.silo, data, lambda text: typer.echo(text, err=True))
    joining.look()
    if not joining.approved():
        _show(joining)
        _decide(joining, approve)
    for number in (signal.SIGTERM, signal.SIGINT):  # from here on, what is begun is ended in order
        signal.signal(number, lambda *_: joining.stop.set())
    if joining.work():
        run = joining.run_folder.path
        typer.echo(f"The course is over. Ask the silo's model: {shlex.join(['fedqa', 'ask', str(run), asked.silo])} …")
    else:
        typer.echo("Stopped; the same command goes on.")


def status(folder: Folder, as_json: Json = False) -> None:
    """How a coordinator or a silo stands.

    Ends with exit code 1 if its process does not run and the course is not over.
    """
    from fedqa.presence import read_presence
    from fedqa.tables import plain

    presence = read_presence(folder)
    if as_json:
        table: dict[str, Any] = plain(presence)
        typer.echo(json.dumps(table | {"alive": presence.alive}, indent=1, ensure_ascii=False))
    else:
        for line in _lines(presence):
            typer.echo(line)
    if not presence.alive and presence.state != "finished":
        raise typer.Exit(1)


def stop(folder: Folder) -> None:
    """End a coordinator or a silo; started again, it goes on."""
    from fedqa.presence import end

    typer.echo("stopped" if end(folder) else "nothing was running")


def leave(folder: Folder) -> None:
    """A silo leaves its alliance, and the coordinator is told.

    It does not join again by itself. What it keeps, its models and its ledger, stays.
    """
    from fedqa.files import write_text
    from fedqa.joining import LEFT
    from fedqa.presence import end, read_presence

    presence = read_presence(folder)
    if presence.what != "silo":
        raise ConfigError(f"{folder} is a coordinator's folder; a coordinator is ended with `fedqa stop`")
    write_text(folder / LEFT, "This silo has left the alliance. Remove this file to join again.\n")
    told = "the coordinator was told" if end(folder) else "its process was not running, so nobody was told"
    typer.echo(f"{presence.name} has left: {told}. Delete the invitation to make it final.")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _show(joining: "Joining") -> None:
    """What was found in the data, and what would leave."""
    from fedqa.console import make_console
    from fedqa.console_plans import show_diagnosis, show_preview
    from fedqa.inspection import preview

    found = joining.examine()
    console = make_console()
    show_diagnosis(console, found)
    if not found.can_train:
        raise RunError("the data would stop the training; nothing has left this silo")
    show_preview(console, preview(joining.course), joining.course)


def _decide(joining: "Joining", approve: str | None) -> None:
    who = getpass.getuser()
    if approve is not None:
        joining.decide_by(approve, who)
        return
    if not sys.stdin.isatty():
        raise RunError(f"nobody can be asked here; approve with --approve {joining.course.fingerprint}")
    approved = typer.confirm(f"Approve course {joining.course.fingerprint}?")
    joining.decide(approved, who)
    if not approved:
        raise RunError("the course was not approved; nothing has left this silo")


def _lines(presence: "Presence") -> list[str]:
    from fedqa.evaluation.words import size

    facts = presence.facts
    running = f"process {presence.pid}" if presence.alive else "no process"
    lines = [f"{presence.what} {presence.name}: {presence.state} ({running}, {presence.at})"]
    if presence.what == "silo":
        return lines + [f"{key}: {value}" for key, value in facts.items()]
    answered = set(facts.get("answered", ()))
    for silo in facts.get("silos", ()):
        here = "online" if presence.alive and silo in facts.get("online", ()) else "away"
        lines.append(f"  {silo}: {here}{', has answered' if silo in answered else ''}")
    quorum = f", quorum {facts['quorum']}" if "quorum" in facts else ""
    sent = f"{size(facts.get('bytes_up', 0))} up, {size(facts.get('bytes_down', 0))} down"
    return [*lines, f"{facts.get('round', 0)} of {facts.get('rounds', 0)} rounds done{quorum}; {sent}"]


def _show_scores(run: Path) -> None:
    from fedqa.console import make_console
    from fedqa.console_tables import result_tables
    from fedqa.evaluation.run_scores import load_run

    for table in result_tables(load_run(run)):
        make_console().print(table)
    typer.echo(f"a report with charts: {shlex.join(['fedqa', 'report', str(run)])}")
