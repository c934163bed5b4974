"""A whole run: check every row, find out about its models meanwhile, render what is missing, say how it went."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omni_cli.api.session import Session
from omni_cli.errors import EngineError, Interrupted, ModelLoadError, OmniGenError, Problem, PromptFileError
from omni_cli.events import RunFinished, RunStarted
from omni_cli.journal import check_folder
from omni_cli.planner import Models, Planner
from omni_cli.planner.check_file import check_file, from_here
from omni_cli.planner.room import check_room
from omni_cli.planner.source import Rows, Source
from omni_cli.request import Result

CHECK_ALONE_S = 0.3
"""A file that is checked within this time is checked before any process is started; a longer check overlaps with loading."""


@dataclass(slots=True)
class Tally:
    """How many requests there are, how those that were tried ended, and how many rows were no request that could be."""

    total: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    rejected: int = 0

    @property
    def tried(self) -> int:
        """Requests that have a result."""
        return self.done + self.failed + self.cancelled

    def count(self, result: Result) -> None:
        """One more has ended."""
        match result.status:
            case "done":
                self.done += 1
            case "failed":
                self.failed += 1
            case "cancelled":
                self.cancelled += 1


def run_file(session: Session, source: Source) -> int:
    """Run every request of `source`; the exit code: 0 all done, 1 some failed, the stop's own if it cut the run short.

    Raises PromptFileError with all problems before anything is rendered, and EngineError if the engine died; what was done
    is kept. RunFinished is the last event in every case, with the process's exit code.
    """
    tally = Tally()
    with accounted(session, tally) as ending:
        check_folder(session.config.output.output_dir)
        models = judge(session, source, tally)
        session.observe(
            RunStarted(
                at=time.monotonic(),
                total=tally.total,
                skipped=0,
                model=", ".join(models),
                output_dir=session.config.output.output_dir,
            )
        )
        _render(session, source, tally)
        ending.code = _exit_code(session, tally)
    return ending.code


def judge(session: Session, source: Source, tally: Tally, *, hold: bool = True) -> list[str]:
    """The models that the requests of `source` need; `tally` learns how many are this run's. The folder is held from then on.

    First by what is known without an engine, then by what the engine says of each model. A single model begins to load; of
    several, each is loaded when the first of its requests is due. Raises PromptFileError with all problems.
    """
    config = session.config
    here = Models(config.model, source.base, from_here(config))
    tally.total = check_file(config, source, here, _starting_late(session, here, source.rows()))
    if hold:
        session.hold()
        _check_room(session, source, here)
    needed = {key: here.config(key) for key in here.first}
    if hold and len(needed) == 1:
        session.begin(*needed.values())
    engine = session.models(source.base)
    problems: list[Problem] = []
    for key, first in here.first.items():
        try:
            engine.facts(engine.key(key))
        except ModelLoadError as error:
            if key is None:
                raise
            problems.append(here.problem(key, first, error))
    if problems:
        raise PromptFileError(problems)
    # Cards that were not known before: the rows are checked against them now, still before any forward.
    if any(here.facts(key).card is None for key in needed):
        tally.total = Planner(config, engine, source.base).check_all(source.rows())
        if hold:
            _check_room(session, source, engine)
    return [model.title for model in needed.values()]


def _starting_late(session: Session, models: Models, rows: Rows) -> Rows:
    """`rows`; once they have taken a while, the engine starts beside them. Raises Interrupted at a stop."""
    start = time.monotonic()
    for row in rows:
        if session.stop.requested:
            raise Interrupted("stopped while the prompts were checked; nothing was rendered")
        if not session.started and time.monotonic() - start > CHECK_ALONE_S:
            session.start(models.config(next(iter(models.first), None)))
        yield row


def _check_room(session: Session, source: Source, models: Models) -> None:
    """Ask whether the disk can hold what is not there yet, once cards tell the sizes. Raises OutputFolderError."""
    if session.config.output.disk_check and all(models.facts(key).card is not None for key in models.first):
        room = Planner(session.config, models, source.base).room(source.rows(), session.journal.has_done)
        check_room(room, session.config.output)


def _render(session: Session, source: Source, tally: Tally) -> None:
    """Render and count."""
    for result in session.render(session.planner(source.base).plan_all(source.rows())):
        tally.count(result)


def _exit_code(session: Session, tally: Tally) -> int:
    if tally.failed:
        return 1
    return session.stop.exit_code if session.stop.requested and tally.done + session.skipped < tally.total else 0


@dataclass(slots=True)
class Ending:
    """The exit code of a run, that of a dead engine until it is known, and why, where an error ended it."""

    code: int = EngineError.exit_code
    reason: str | None = None


@contextmanager
def accounted(session: Session, tally: Tally) -> Iterator[Ending]:
    """RunFinished is the last event, whichever way the block ends."""
    ending = Ending()
    try:
        yield ending
    except Interrupted as error:
        ending.code, ending.reason = session.stop.exit_code, str(error)
        raise
    except OmniGenError as error:
        ending.code, ending.reason = error.exit_code, str(error)
        raise
    finally:
        _finish(session, tally, ending)


def _finish(session: Session, tally: Tally, ending: Ending) -> None:
    figures = session.timeline.figures()
    session.observe(
        RunFinished(
            at=time.monotonic(),
            exit_code=ending.code,
            done=tally.done,
            failed=tally.failed + tally.rejected,
            cancelled=tally.cancelled,
            skipped=session.skipped,
            not_run=max(0, tally.total - tally.tried - session.skipped),
            seconds=figures.wall_seconds,
            output_hidden=figures.output_hidden,
            device_idle=figures.device_idle,
            longest_gap=figures.longest_gap,
            reason=ending.reason,
        )
    )
