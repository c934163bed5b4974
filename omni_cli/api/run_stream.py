"""A run of a live source: each request is validated and rendered as it arrives; the end of input ends the run."""

import time
from functools import partial

from omni_cli.api.exports import Exports, exporting
from omni_cli.api.request_feed import RequestFeed
from omni_cli.api.session import Session
from omni_cli.api.tally import Tally, reporting_end
from omni_cli.errors import Diagnostic, UsageError
from omni_cli.events import Note, RequestFinished, RunStarted
from omni_cli.journal import check_folder
from omni_cli.planner import FinishedWork
from omni_cli.planner.refusals import refusal
from omni_cli.planner.resolve import SourcedRequest
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import ErrorInfo, ModelInfo, PlannedRequest, Result

INVALID = "invalid_request"
"""Error kind of a row that is no valid request."""


def run_stream(session: Session, source: PromptSource) -> int:
    """Render the requests of a live `source`; return 0 if all are done, 1 if some failed, 2 if every row was invalid.

    An invalid row, and one that would replace finished files unasked, is reported at once with its place, and counts as
    failed. It has no row in the manifest, where its id
    may belong to another request. The run's own model starts to load before the first row arrives. Raises
    OutputFolderError, ModelLoadError, Interrupted, EngineError, or RunCutShort if the pipe cannot be read any more;
    RunFinished is always the last event.
    """
    with reporting_end(session) as tally:
        model, output_dir = session.config.model.title, session.config.output.output_dir
        check_folder(output_dir)
        session.open_folder()
        session.start_engine()
        session.observe(RunStarted(at=time.monotonic(), total=None, skipped=0, model=model, output_dir=output_dir))
        work = session.finished_work(session.journal)
        with exporting(session) as exports:
            reject, refuse = partial(_reject, session, tally, exports), partial(_refusal, work)
            planned = session.planner().plan_each(source.rows(), reject, refuse)
            feed = RequestFeed(session, exports.listing(planned))
            for result in session.render(feed, live=True):
                tally.count(result)
            feed.raise_fault(tally)
        if session.stop.requested and not session.config.fail_fast:
            tally.exit_code = session.stop.exit_code
        elif tally.rejected and not tally.ended and not session.skipped:
            tally.exit_code = UsageError.exit_code
        else:
            tally.exit_code = 1 if tally.rejected or tally.failed else 0
    return tally.exit_code


def _refusal(work: FinishedWork, planned: PlannedRequest) -> str:
    """Return why `planned` must not be rendered, as it would replace finished files unasked; "" if it may."""
    decision = work.decide(planned, hashed=False)
    return refusal(decision) if decision.refused else ""


def _reject(
    session: Session, tally: Tally, exports: Exports, row: SourcedRequest | None, problems: list[Diagnostic]
) -> None:
    """Count an invalid row and emit a failed result for it, or a note if no request could be read from it."""
    tally.rejected += 1
    text = "\n".join(map(str, problems))
    now = time.monotonic()
    if row is None:
        session.observe(Note(at=now, level="error", text=text))
        return
    result = Result(
        id=row.request.id or "",
        index=row.index,
        status="failed",
        request=row.request,
        fingerprint="",
        model=ModelInfo(id=session.config.model.title, revision=None, pipeline="", dtype=""),
        error=ErrorInfo(kind=INVALID, message=text),
    )
    exports.reject(result)
    session.observe(RequestFinished(at=now, result=result))
