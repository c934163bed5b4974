"""The counts of a run and its last event."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omni_cli.api.session import Session
from omni_cli.errors import EngineError, Interrupted, OmniGenError
from omni_cli.events import RunFinished
from omni_cli.request import Result


@dataclass(slots=True)
class Tally:
    """Counts of a run: requests by how they ended, rejected rows, the exit code, and the reason if an error ended it.

    `rejected` counts rows of a live source that are no valid request, `with_notes` done requests with notes. Until the
    run sets `exit_code`, it is that of a dead engine.
    """

    total: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    rejected: int = 0
    with_notes: int = 0
    exit_code: int = EngineError.exit_code
    reason: str | None = None

    @property
    def ended(self) -> int:
        """Requests that have a result."""
        return self.done + self.failed + self.cancelled

    def count(self, result: Result) -> None:
        """Count one ended request."""
        match result.status:
            case "done":
                self.done += 1
                self.with_notes += bool(result.notes)
            case "failed":
                self.failed += 1
            case "cancelled":
                self.cancelled += 1


@contextmanager
def reporting_end(session: Session) -> Iterator[Tally]:
    """Yield the tally of a run, and emit RunFinished from it as the last event, however the block ends."""
    tally = Tally()
    try:
        yield tally
    except Interrupted as error:
        tally.exit_code, tally.reason = session.stop.exit_code, str(error)
        raise
    except OmniGenError as error:
        tally.exit_code, tally.reason = error.exit_code, str(error)
        raise
    finally:
        figures = session.timeline.figures()
        session.observe(
            RunFinished(
                at=time.monotonic(),
                exit_code=tally.exit_code,
                done=tally.done,
                failed=tally.failed + tally.rejected,
                cancelled=tally.cancelled,
                skipped=session.skipped,
                not_run=max(0, tally.total - tally.ended - session.skipped),
                with_notes=tally.with_notes,
                seconds=figures.wall_seconds,
                output_hidden=figures.output_hidden,
                device_idle=figures.device_idle,
                longest_gap=figures.longest_gap,
                reason=tally.reason,
            )
        )
