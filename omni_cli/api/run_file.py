"""A run of a whole prompt file: validate every row, identify the models, render what is missing."""

import time
from collections.abc import Callable

from omni_cli.api.exports import exporting
from omni_cli.api.request_feed import RequestFeed
from omni_cli.api.session import Session
from omni_cli.api.tally import Tally, reporting_end
from omni_cli.errors import Diagnostic, Interrupted, ModelLoadError, PromptFileError
from omni_cli.events import RunStarted
from omni_cli.journal import check_folder, count_lines
from omni_cli.planner import Models, Planner
from omni_cli.planner.check_file import check_file, local_lookup
from omni_cli.planner.disk_check import check_space
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.prompts.row import Rows

CHECK_ALONE_S = 0.3
"""Seconds of validation before worker processes start beside it; a shorter validation starts none for a bad file."""

Start = Callable[[], None]
"""Starts the engine for the models of a run; does nothing if it was started."""


def run_file(session: Session, source: PromptSource) -> int:
    """Render every request of `source` and return the exit code: 0 all done, 1 some failed, else that of the stop.

    Raises PromptFileError with every problem before anything is rendered, OutputFolderError, Interrupted,
    RunCutShort if the prompts changed while they were rendered, or EngineError if the engine died; finished rows are
    kept. RunFinished, with the process's exit code, is always the last event.
    """
    with reporting_end(session) as tally:
        output_dir = session.config.output.output_dir
        check_folder(output_dir)
        model = ", ".join(validate(session, source, tally))
        session.observe(
            RunStarted(at=time.monotonic(), total=tally.total, skipped=0, model=model, output_dir=output_dir)
        )
        with exporting(session) as exports:
            feed = RequestFeed(session, exports.listing(session.planner().plan_all(source.rows())))
            for result in session.render(feed):
                tally.count(result)
            feed.raise_fault(tally)
        ended = tally.done + tally.failed + session.skipped
        cut_short = session.stop.requested and ended < tally.total
        if tally.failed and (session.config.fail_fast or not cut_short):
            tally.exit_code = 1
        else:
            tally.exit_code = session.stop.exit_code if cut_short else 0
    return tally.exit_code


def validate(session: Session, source: PromptSource, tally: Tally, *, dry_run: bool = False) -> list[str]:
    """Check every request of `source` and identify its models; set `tally.total` and return the names of the models.

    The first pass uses what is known without an engine, the second what the engine knows of each model. Unless it is a
    `dry_run`, the output folder is opened in between, the requests are compared with what is finished there, and the
    engine starts as soon as something is known to be missing: a single model is loaded, of several each when its first
    request is due. Raises PromptFileError with
    every problem, UsageError if finished files would be replaced unasked, OutputFolderError if the folder cannot be
    used or is too small, ModelLoadError for the run's own model, or Interrupted.
    """
    config = session.config
    local = Models(config.model, session.base, local_lookup(config, session.known))
    rows = source.rows() if dry_run else _overlap_engine_start(session, local, source.rows())
    tally.total = check_file(config, source, local, rows)
    models = {key: local.config(key) for key in local.first_rows}

    def start() -> None:
        if models:
            session.start_engine(next(iter(models.values())), load=len(models) == 1)

    if not dry_run:
        session.open_folder()
        _check_disk_space(session, source, local)
        if tally.total > (0 if config.output.overwrite else len(session.journal)):  # one must be missing
            start()
    identified = session.models
    problems: list[Diagnostic] = []
    for key, first in local.first_rows.items():
        try:
            identified.facts(identified.key(key))
        except ModelLoadError as error:
            if key is None:
                raise
            problems.append(local.problem(key, first, error))
    if problems:
        raise PromptFileError(problems)
    if any(local.facts(key).card is None for key in models):
        # The engine knows a card that the first pass did not: check the rows against it, still before any forward.
        tally.total = Planner(config, identified, session.base).check_all(source.rows())
        if not dry_run:
            _check_disk_space(session, source, identified)
    if not dry_run:
        session.expected = tally.total
        session.check_finished_work(session.planner().plan_all(source.rows()), start)
    return [model.title for model in models.values()]


def _overlap_engine_start(session: Session, models: Models, rows: Rows) -> Rows:
    """Yield `rows`; start the engine beside them once they take longer than CHECK_ALONE_S and one must be missing.

    It must be if there are more requests than rows in the manifest. Raises Interrupted at a stop.
    """
    start, finished = time.monotonic(), None
    for number, row in enumerate(rows, 1):
        if session.stop.requested:
            raise Interrupted("stopped while the prompts were checked; nothing was rendered")
        if finished is None and time.monotonic() - start > CHECK_ALONE_S:
            finished = 0 if session.config.output.overwrite else count_lines(session.config.output.output_dir)
        if finished is not None and number > finished and session.config.shard is None:
            session.start_engine(models.config(next(iter(models.first_rows), None)), load=False)
        yield row


def _check_disk_space(session: Session, source: PromptSource, models: Models) -> None:
    """Raise OutputFolderError if the disk cannot hold what is missing; skip this while output sizes are unknown."""
    if session.config.output.disk_check and all(models.facts(key).card is not None for key in models.first_rows):
        needed = Planner(session.config, models, session.base).estimate_space(source.rows(), session.journal.has_done)
        check_space(needed, session.config.output)
