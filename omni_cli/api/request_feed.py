"""The planned requests of a run, up to the first that can no longer be read as it was checked."""

import time
from collections.abc import Iterable, Iterator

from omni_cli.api.session import Session
from omni_cli.api.tally import Tally
from omni_cli.errors import RunCutShort, UsageError
from omni_cli.events import Note
from omni_cli.request import PlannedRequest


class RequestFeed:
    """The planned requests of a run. It ends early, instead of raising, at one that cannot be read or planned.

    A UsageError means that nothing was rendered, so it must not leave a run that has begun: requests that were read
    before it are rendered first, then `raise_fault` ends the run.
    """

    def __init__(self, session: Session, planned: Iterable[PlannedRequest]) -> None:
        """Yield `planned`; a fault is reported to the observer of `session` at once."""
        self._session = session
        self._planned = planned
        self._fault: UsageError | None = None

    def __iter__(self) -> Iterator[PlannedRequest]:
        """Yield the requests; emit a warning where they end early."""
        try:
            yield from self._planned
        except UsageError as error:
            self._fault = error
            text = f"{error}; no more requests are read, and those that were are finished"
            self._session.observe(Note(at=time.monotonic(), level="warning", text=text))

    def raise_fault(self, tally: Tally) -> None:
        """Raise RunCutShort with the counts of the run if the requests ended early."""
        if self._fault is None:
            return
        counts = {"done": tally.done, "failed": tally.failed, "done before": self._session.skipped}
        parts = [f"{count} {name}" for name, count in counts.items() if count] or ["nothing was rendered"]
        total = f" of {tally.total} requests" if tally.total else ""
        raise RunCutShort(
            f"{self._fault}; the run ended there: {', '.join(parts)}{total}, in"
            f" {self._session.config.output.output_dir!r}; run the same command again: it checks the prompts as they"
            " are then and renders what is missing"
        ) from self._fault
