# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command is a few lines that call a public function and show what it returns.

PyTorch and the models are imported inside the commands: help must not wait for them. With --json, stdout holds one
JSON document and nothing else; progress always goes to stderr. Exit codes: 0 well, 1 a check found something, 2 the
caller can mend it, 130 interrupted.
"""

import _thread
import importlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from threading import Timer
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fedqa import __version__
from fedqa.errors import ConfigError, FedQAError, RunError, unknown
from fedqa.network_commands import register

if TYPE_CHECKING:
    from rich.console import Console

    from fedqa.config import Project
    from fedqa.console_tables import Known
    from fedqa.data.records import Collection
    from fedqa.evaluation.run_scores import Run as FinishedRun


class _Commands(TyperGroup):
    """What the caller can mend is a paragraph on stderr, not a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except FedQAError as problem:
            message = str(problem)
        except OSError as problem:
            if problem.filename is None:  # nothing the caller named
                raise
            message = f"{problem.filename}: {problem.strerror}; name a place that you may read and write"
        except KeyboardInterrupt:
            typer.echo("fedqa: interrupted", err=True)
            raise typer.Exit(130) from None
        typer.echo(f"fedqa: {message}", err=True)
        raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
    help="Federated question answering: train together, texts stay where they are.",
)

Alliance = Annotated[Path, typer.Argument(metavar="ALLIANCE.toml", help="An alliance or course file, or `sample`.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `fedqa train --out` was given.")]
Silo = Annotated[str, typer.Argument(metavar="SILO", help="A silo of the run.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file, such as local.batch=8."),
]
SiloFile = Annotated[Path, typer.Argument(metavar="SILO.toml", help="A silo's own file; `fedqa demo` writes one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Name = Annotated[str | None, typer.Argument(metavar="NAME", help="One of them: show its options.")]


def main() -> None:
    """The command `fedqa`."""
    sys.unraisablehook = _unraisable
    app()


def _unraisable(ignored: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C that met a finaliser, where Python drops what is raised: it is raised again a little later."""
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(ignored)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedqa {__version__}")
        raise typer.Exit()


@app.callback()
def _begin(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    # Nothing is fetched unless somebody asks for it, and only what fedqa prints is printed.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


# -- training ----------------------------------------------------------------------------------------------------


@app.command()
def demo(
    serve: Annotated[bool, typer.Option(help="Serve the page afterwards.")] = True,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the runs are kept.")] = Path("runs/demo"),
) -> None:
    """Train the sample alliance, compare, ask it, serve a page.

    Takes about four minutes on two cores and no network. A second call shows the same in seconds.
    """
    from fedqa.demo import run_demo

    try:
        run_demo(out, serve)
    except KeyboardInterrupt:
        raise _interrupted(["fedqa", "demo", "--out", str(out)]) from None


@app.command()
def train(
    alliance: Alliance,
    out: Annotated[Path, typer.Option(metavar="RUN", help="A new folder for the run.")],
    changes: Changes = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    more: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With --resume: N more rounds, with the examples added since."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most so many silos at once; by default, one a core.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train an alliance with all its silos on this machine."""
    from fedqa.config import load_project
    from fedqa.evaluation.report import write_report
    from fedqa.evaluation.run_scores import load_run

    project = load_project(alliance, changes or ())
    again = ["fedqa", "train", str(alliance), "--out", str(out), *_as_options("--set", changes), "--resume"]
    if more and not resume:
        raise ConfigError("--more goes on with a run, so it needs --resume; for a longer new run set rounds")
    result = _train(project, out, again, resume=resume, more=more, processes=processes)
    report = write_report(out)
    if as_json:
        _print_json(result)
    else:
        _show_scores(load_run(out))
        typer.echo(f"report: {report}")


def _train(project: "Project", out: Path, again: list[str], **options: Any) -> dict[str, Any]:
    from fedqa.console import RunWatcher
    from fedqa.console_tables import quarantine_table
    from fedqa.runs import train as run

    console = _console(stderr=True)

    def show_quarantine(collections: "Mapping[str, Collection]") -> None:
        if table := quarantine_table(collections):
            console.print(table)

    try:
        with RunWatcher(console) as watcher:
            return run(project, out, watcher=watcher, say=watcher.say, on_data=show_quarantine, **options)
    except KeyboardInterrupt:
        raise _interrupted(again if (out / "course.toml").exists() else []) from None


def _interrupted(again: list[str]) -> typer.Exit:
    """Says how to go on, if there is anything to go on with."""
    remedy = f"go on with: {shlex.join(again)}" if again else "nothing was written"
    typer.echo(f"fedqa: interrupted; {remedy}", err=True)
    return typer.Exit(130)


@app.command("inspect")
def inspect_course(alliance: Alliance, changes: Changes = None, as_json: Json = False) -> None:
    """What would leave each silo, stage by stage; no data are read."""
    from fedqa.config import load_project
    from fedqa.console_plans import show_preview
    from fedqa.inspection import preview
    from fedqa.tables import plain

    course = load_project(alliance, changes or ()).course
    found = preview(course)
    if as_json:
        _print_json(plain(found))
    else:
        show_preview(_console(), found, course)


@app.command()
def doctor(
    target: Annotated[Path, typer.Argument(metavar="ALLIANCE.toml|DATA", help="An alliance, or one silo's data.")],
    format: Annotated[str | None, typer.Option(metavar="F", help="The format of DATA (fedqa formats).")] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="An option of the format.")
    ] = None,
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Check data before joining: leaks, copies, cost of a round.

    Ends with exit code 1 if something would stop the training. For DATA alone, the cost is that of fedavg on the
    embedded model.
    """
    from fedqa.checkup import check_up
    from fedqa.console_plans import show_diagnosis
    from fedqa.tables import plain

    say = _say(_console(stderr=True))
    found = check_up(_to_examine(target, format, options, changes), say)
    if as_json:
        _print_json(plain(found) | {"can_train": found.can_train})
    else:
        show_diagnosis(_console(), found)
    if not found.can_train:
        raise typer.Exit(1)


def _to_examine(target: Path, format: str | None, options: list[str] | None, changes: list[str] | None) -> "Project":
    from fedqa import config
    from fedqa.data.formats import FORMATS
    from fedqa.tables import from_table

    if format is None and target.suffix != ".toml" and str(target) != "sample":
        raise ConfigError(f"say with --format what {target} is (known: {', '.join(FORMATS)}), or give an alliance.toml")
    if format is None:
        return config.load_project(target, changes or ())
    data = config.changed({}, options or ()) | {"format": format, "path": str(target.absolute())}
    table = {"name": "data", "method": "fedavg", "silo": [{"name": "data", "data": data}]}
    alliance = from_table(config.Alliance, config.changed(table, changes or ()), "the command line")
    return config.project_of(alliance)


# -- what is known -----------------------------------------------------------------------------------------------


@app.command()
def methods(name: Name = None, as_json: Json = False) -> None:
    """The methods of training: a line each, or the options of one."""
    from fedqa.console_tables import Known
    from fedqa.methods import METHODS

    known = [Known(m.name, m.summary, _defaults(m.options)) for m in METHODS.values()]
    _show_known("method", known, name, as_json)


@app.command()
def skills(name: Name = None, as_json: Json = False) -> None:
    """What silos can learn: a line each, or the options of one."""
    from fedqa.console_tables import Known
    from fedqa.skills import SKILLS

    known = [Known(s.name, s.summary, _defaults(s.options)) for s in SKILLS.values()]
    _show_known("skill", known, name, as_json)


@app.command()
def formats(name: Name = None, as_json: Json = False) -> None:
    """The formats of data: a line each, or the options of one."""
    from fedqa.console_tables import Known
    from fedqa.data.formats import FORMATS

    known = [Known(f.name, f.summary, f.options) for f in FORMATS.values()]
    _show_known("format", known, name, as_json)


@app.command()
def models(as_json: Json = False) -> None:
    """The models to start from, a line each."""
    from fedqa.console_tables import Known
    from fedqa.models.backbones import MODELS

    _show_known("model", [Known(name, summary, {}) for name, summary in MODELS], None, as_json)
    if not as_json:
        typer.echo("fedqa asks no hub unless HF_HUB_OFFLINE=0 is set.")


def _show_known(kind: str, known: Iterable["Known"], name: str | None, as_json: bool) -> None:
    from fedqa.console_tables import known_table, options_table
    from fedqa.tables import plain

    entries = {entry.name: entry for entry in known}
    if name is not None and name not in entries:
        raise ConfigError(unknown(kind, name, entries))
    if as_json:
        tables = [{"name": e.name, "summary": e.summary, "options": plain(e.options)} for e in entries.values()]
        _print_json(next(table for table in tables if table["name"] == name) if name else tables)
    elif name is not None:
        _console().print(options_table(entries[name]))
    else:
        _console().print(known_table(f"{kind.capitalize()}s", entries.values()))


def _defaults(options: type[Any]) -> dict[str, object]:
    default = options()
    return {field.name: getattr(default, field.name) for field in fields(options)}


# -- a finished run ----------------------------------------------------------------------------------------------


@app.command()
def evaluate(run: Run, as_json: Json = False) -> None:
    """Score a run's models again, from the files of its silos.

    Ends with exit code 1 if a score is not the same.
    """
    from dataclasses import replace

    from fedqa.console_tables import rescored_lines
    from fedqa.evaluation.run_scores import load_run
    from fedqa.rescoring import rescore
    from fedqa.tables import plain

    rescored = rescore(run, _say(_console(stderr=True)))
    if as_json:
        agrees = not rescored.differences
        _print_json({"agrees": agrees, "differences": plain(rescored.differences), **rescored.scores})
    else:
        written = load_run(run)
        _show_scores(replace(written, result={**written.result, **rescored.scores}))
        for line in rescored_lines(rescored):
            _console().print(line)
    if rescored.differences:
        raise typer.Exit(1)


@app.command()
def report(
    run: Run,
    against: Annotated[
        list[Path] | None, typer.Option(metavar="RUN", help="A run to compare with; the first is the reference.")
    ] = None,
) -> None:
    """Write a report with tables and charts into RUN/report."""
    from fedqa.evaluation.report import write_report

    typer.echo(str(write_report(run, against or ())))


@app.command()
def ask(
    run: Run,
    silo: Silo,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="In quotation marks.")],
    k: Annotated[int, typer.Option("-k", metavar="N", help="Answers to show.")] = 3,
    database: Annotated[
        str, typer.Option(metavar="WHERE", help="A path or URL, instead of the silo's own (skill parse).")
    ] = "",
    beams: Annotated[int, typer.Option(min=1, metavar="N", help="Queries to try (skill parse).")] = 5,
    first: Annotated[bool, typer.Option("--first", help="Take one that finds nothing, too (skill parse).")] = False,
    as_json: Json = False,
) -> None:
    """Ask a silo's best model: answers with evidence, or none.

    A silo that learnt `parse` is asked for its database: the SQL, what it finds, and a sentence about it.
    """
    from fedqa.answering.assistant import Assistant
    from fedqa.console_tables import show_answers
    from fedqa.opening import skill_of
    from fedqa.parser_export import is_exported
    from fedqa.tables import plain

    if is_exported(run) or skill_of(run, silo) == "parse":
        _ask_database(run, silo, question, as_json, database=database, beams=beams, prefer_rows=not first)
        return
    if database:
        raise ConfigError(f"--database is for a silo that learnt 'parse', and {silo!r} did not; leave it out")
    assistant = Assistant.open(run, silo)
    nearest = assistant.nearest(question, k)
    answered = assistant.answers(nearest)
    if as_json:
        found = {"question": question, "silo": silo, "answered": answered, "threshold": assistant.threshold}
        _print_json(found | {"answers" if answered else "nearest": plain(nearest)})
        return
    if not answered:
        sure = f"confidence {nearest[0].confidence:.3f}, below {assistant.threshold:.3f}"
        typer.echo(f"No answer: the documents of {silo} do not seem to hold one ({sure}). The nearest passage:")
    show_answers(_console(), nearest if answered else nearest[:1])


def _ask_database(run: Path, silo: str, question: str, as_json: bool, *, database: str, **options: Any) -> None:
    from fedqa.answering.querying import Querying
    from fedqa.console_queries import query_document, show_query
    from fedqa.parser_export import is_exported

    exported = is_exported(run)
    opened = Querying.exported(run, database, silo) if exported else Querying.open(run, silo, database=database)
    with opened as querying:
        answer = querying.ask(question, **options)
    if as_json:
        _print_json(query_document(answer, silo))
    else:
        show_query(_console(), answer)


@app.command()
def ledger(run: Run, silo: Silo, as_json: Json = False) -> None:
    """All that left a silo, message by message.

    Ends with exit code 1 if the ledger was altered.
    """
    from fedqa.console_tables import ledger_table
    from fedqa.federation.ledger import Ledger
    from fedqa.federation.run_folder import RunFolder
    from fedqa.opening import check_silo, load_course
    from fedqa.tables import plain

    check_silo(run, load_course(run).course, silo)
    path = RunFolder(run).silo(silo) / "ledger.sqlite"
    if not path.exists():
        raise RunError(f"{path} is missing: nothing has left {silo!r} yet, or the silo ran on another machine")
    book = Ledger(path)
    rows, broken = list(book.rows()), book.first_broken()
    book.close()
    if as_json:
        _print_json({"silo": silo, "intact": broken is None, "first_broken": broken, "rows": plain(rows)})
    else:
        _console().print(ledger_table(silo, rows))
        altered = f"Row {broken} does not fit those before it: the ledger was altered."
        typer.echo("The rows form an unbroken chain." if broken is None else altered)
    if broken is not None:
        raise typer.Exit(1)


@app.command()
def export(run: Run, silo: Silo, folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")]) -> None:
    """A silo's best model as a Hugging Face folder."""
    from fedqa.export import export as write

    typer.echo(f"{write(run, silo, folder)} says how to load it")


# -- a silo's own page -------------------------------------------------------------------------------------------


@app.command()
def serve(
    silo: SiloFile,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Instead of the file's, or 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, metavar="N", help="Instead of the file's, or 8642; 0 is any free.")
    ] = None,
) -> None:
    """Serve a silo's page and REST API: ask, correct, add, train.

    Other machines reach it only if --host or the file says so. The first start prints a link that makes whoever opens
    it the owner.
    """
    from fedqa.web.serve import serve as run

    run(silo, host=host, port=port, say=typer.echo)


@app.command()
def documents(
    silo: SiloFile,
    action: Annotated[str, typer.Argument(metavar="add|list|remove", help="What to do.")],
    what: Annotated[
        list[str] | None, typer.Argument(metavar="FILE|ID|WORDS", help="Files, ids, or words to look for.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add, list or remove documents of a silo's store.

    add FILE…: text, Markdown, HTML, PDF or Word. list [WORDS]: all, or those that contain the words. remove ID…: with
    the examples that rest on them. A page that is being served follows at once.
    """
    from fedqa.serving.documents import ACTIONS

    if action not in ACTIONS:
        raise ConfigError(unknown("action", action, ACTIONS))
    done = ACTIONS[action](silo, what or [])
    if as_json:
        _print_json(done.table())
    else:
        for line in done.lines():
            typer.echo(line)
    if done.failed:
        raise typer.Exit(1)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A module of benchmarks/.")],
    quick: Annotated[bool, typer.Option("--quick", help="A short version, to see that it works.")] = False,
) -> None:
    """Run a study or a measurement of the project's benchmarks."""
    benchmark(name, Path(__file__).parents[1] / "benchmarks").main(quick=quick)


def benchmark(name: str, folder: Path) -> ModuleType:
    """A module of the benchmarks folder, which stands beside the package in the project's source."""
    known = [path.stem for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")]
    if name not in known:
        where = "" if known else f"; {folder} is part of the project's source, not of the installed package"
        raise ConfigError(unknown("benchmark", name, known) + where)
    sys.path.insert(0, str(folder.parent))
    return importlib.import_module(f"{folder.name}.{name}")


# -- over the network --------------------------------------------------------------------------------------------

register(app)


# -- showing -----------------------------------------------------------------------------------------------------


def _console(*, stderr: bool = False) -> "Console":
    from fedqa.console import make_console

    return make_console(stderr=stderr)


def _say(console: "Console") -> Callable[[str], None]:
    return lambda text: console.print(text, style="dim")


def _show_scores(run: "FinishedRun") -> None:
    from fedqa.console_tables import result_tables

    tables = result_tables(run)
    for table in tables:
        _console().print(table)
    if not tables:
        typer.echo("Nothing was scored.")


def _print_json(value: Mapping[str, Any] | list[Any]) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def _as_options(option: str, values: Iterable[str] | None) -> list[str]:
    return [word for value in values or () for word in (option, value)]


if __name__ == "__main__":
    main()
