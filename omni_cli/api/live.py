"""A run whose requests come in their own time: each is judged and rendered as it arrives, and the end of input ends the run."""

import time

from omni_cli.api.run import Tally, accounted
from omni_cli.api.session import Session
from omni_cli.errors import Problem, UsageError
from omni_cli.events import Note, RequestFinished, RunStarted
from omni_cli.journal import check_folder
from omni_cli.planner.located import Located
from omni_cli.planner.resolve import id_of
from omni_cli.planner.source import Source
from omni_cli.request import ErrorInfo, ModelInfo, Result

INVALID = "invalid_request"
"""The kind of error of a row that cannot be rendered as it stands."""


def run_live(session: Session, source: Source) -> int:
    """Run the requests of a live `source`; the exit code: 0 all done, 1 some failed, 2 if none could even be tried.

    A row with a mistake is told at once, with its place, and counts as failed; it leaves no row in the manifest, where the id it
    claims may be another's. The run's own model is loaded before the first row arrives. Raises EngineError as `run_file` does.
    """
    tally = Tally()
    with accounted(session, tally) as ending:
        check_folder(session.config.output.output_dir)
        session.hold()
        session.begin()
        model, folder = session.config.model.title, session.config.output.output_dir
        session.observe(RunStarted(at=time.monotonic(), total=None, skipped=0, model=model, output_dir=folder))
        planned = session.planner(source.base).plan_each(source.rows(), _Rejections(session, tally))
        for result in session.render(planned, live=True):
            tally.count(result)
        ending.code = _exit_code(session, tally)
    return ending.code


def _exit_code(session: Session, tally: Tally) -> int:
    if session.stop.requested and not session.config.fail_fast:
        return session.stop.exit_code
    if tally.rejected and not tally.tried and not session.skipped:
        return UsageError.exit_code
    return 1 if tally.rejected or tally.failed else 0


class _Rejections:
    """Tells rows that cannot be rendered, from the thread that reads them, and counts them."""

    def __init__(self, session: Session, tally: Tally) -> None:
        self._session = session
        self._tally = tally

    def __call__(self, row: Located | None, problems: list[Problem]) -> None:
        self._tally.rejected += 1
        text = "\n".join(map(str, problems))
        now = time.monotonic()
        if row is None:
            self._session.observe(Note(at=now, level="error", text=text))
            return
        model = ModelInfo(id=self._session.config.model.title, revision=None, pipeline="", dtype="")
        result = Result(
            id=id_of(row.request, row.index),
            index=row.index,
            status="failed",
            request=row.request,
            fingerprint="",
            model=model,
            error=ErrorInfo(kind=INVALID, message=text),
        )
        self._session.observe(RequestFinished(at=now, result=result))
