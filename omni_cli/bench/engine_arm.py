"""An arm of the engine: a session that stays open; its worker blocks on its inbox between turns."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, Self

from omni_cli.bench.arms import ArmSpec, LoadedArm, Round
from omni_cli.config import RunConfig
from omni_cli.errors import Diagnostic, EngineError, UsageError
from omni_cli.events import AnyEvent, ModelReady, Observer
from omni_cli.models.cards import Card
from omni_cli.planner import Planner
from omni_cli.request import GenerationRequest, PlannedRequest, Result
from omni_cli.trace import Timeline
from omni_cli.transport.messages import Loaded


class EngineSession(AbstractContextManager["EngineSession"], Protocol):
    """The part of `api.Session` that an arm uses, so that it measures exactly what `run` runs."""

    def open_folder(self) -> None:
        """Lock the output folder."""

    def wait_until_loaded(self) -> Loaded:
        """Wait until the worker is ready for its first forward and return what was loaded."""

    def planner(self) -> Planner:
        """Return a new planner for the loaded model."""

    def prepare_workers(self, planned: PlannedRequest, calls: int) -> None:
        """Start the workers that a run of `calls` calls would have, and wait until they are ready."""

    def render(self, planned: Iterable[PlannedRequest]) -> Iterator[Result]:
        """Render and yield rows in completion order."""


MANY_CALLS = 1 << 20
"""Calls of the run whose rate is measured: a long one, so that it has all the workers that such requests are worth."""

OpenSession = Callable[[RunConfig, Observer, Timeline], EngineSession]


class EngineArm:
    """An arm that runs the engine; see `arms.Arm`."""

    def __init__(self, spec: ArmSpec, folder: Path, session: EngineSession, events: list[AnyEvent]) -> None:
        """Use `session`, which is open and appends to `events`."""
        self.spec = spec
        self.folder = folder
        self._session = session
        self._events = events
        self.threads: int | None = None
        """Intra-op threads of the last round, None if the device is no CPU."""

    @classmethod
    @contextmanager
    def open(cls, spec: ArmSpec, config: RunConfig, open_session: OpenSession) -> Iterator[Self]:
        """Lock the output folder of `config`, which is that of `arm_config`; end the worker on leaving.

        Raises OutputFolderError if the folder cannot be used.
        """
        events: list[AnyEvent] = []
        with open_session(config, events.append, Timeline()) as session:
            session.open_folder()
            yield cls(spec, Path(config.output.output_dir), session, events)

    @property
    def card(self) -> Card:
        """The loaded model's card."""
        return self._session.wait_until_loaded().card

    def load(self) -> LoadedArm:
        """Start the worker and wait for the model. Raises EngineError."""
        loaded = self._session.wait_until_loaded()
        seconds = max(event.seconds for event in self._events if isinstance(event, ModelReady))
        return LoadedArm(seconds, loaded.info.pipeline, loaded.device, loaded.info.dtype)

    def plan(self, requests: Sequence[GenerationRequest]) -> list[PlannedRequest]:
        """Plan `requests`. Raises UsageError with all problems of the requests."""
        planner = self._session.planner()
        rows = [BenchRow(request, index) for index, request in enumerate(requests)]
        problems = {str(problem): None for row in rows for problem in planner.check(row)}
        if problems:
            raise UsageError("\n".join(problems))
        return [planner.plan(row) for row in rows]

    def run(self, requests: Sequence[GenerationRequest]) -> Round:
        """Render `requests`.

        Planning is not measured: the plain loop has none. Raises EngineError if a request fails.
        """
        planned = self.plan(requests)
        self._session.prepare_workers(planned[0], MANY_CALLS)
        self._events.clear()
        start = time.monotonic()
        results = list(self._session.render(planned))
        seconds = time.monotonic() - start
        for result in results:
            if result.status != "done":
                reason = result.error.message if result.error else result.status
                raise EngineError(f"bench: arm {self.spec.name}: request {result.id!r} failed: {reason}")
            self.threads = result.made.threads if result.made else None
        return Round(seconds, len(planned), tuple(self._events))


class BenchRow:
    """A request of the bench as the planner takes it; its problems name the flag that caused them."""

    def __init__(self, request: GenerationRequest, index: int) -> None:
        self.request = request
        self.index = index
        self.line = index + 1

    def problem(self, field: str, cause: str, remedy: str = "") -> Diagnostic:
        """Return the problem of a flag; it is the same for every request, since all share their values."""
        flag = "--resolution" if field in ("height", "width") else f"--{field.replace('_', '-')}"
        return Diagnostic(cause, remedy, field=flag, source="bench")
