"""An arm of the engine: a session that stays open, with the worker waiting in its inbox between its turns."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from omni_cli.bench.arms import Ready, Round, Spec, failed
from omni_cli.config import RunConfig
from omni_cli.errors import Problem, UsageError
from omni_cli.events import AnyEvent, ModelReady, Observer
from omni_cli.models.cards import Card
from omni_cli.planner import Planner
from omni_cli.request import GenerationRequest, PlannedRequest, Result
from omni_cli.trace import Timeline
from omni_cli.transport.messages import Loaded


class EngineSession(AbstractContextManager["EngineSession"], Protocol):
    """The part of `api.Session` that an arm uses: what is measured is exactly what `run` runs."""

    def hold(self) -> None:
        """Hold the output folder."""

    def load(self) -> Loaded:
        """The loaded model's facts; waits for it."""

    def ready(self) -> Loaded:
        """The same, once the worker is ready for its first forward."""

    def planner(self) -> Planner:
        """A fresh planner for the loaded model."""

    def render(self, planned: Iterable[PlannedRequest]) -> Iterator[Result]:
        """Render and yield rows in completion order."""


OpenSession = Callable[[RunConfig, Observer, Timeline], EngineSession]


class EngineArm:
    """See `arms.Arm`."""

    def __init__(self, spec: Spec, config: RunConfig, open_session: OpenSession) -> None:
        """`config` is the arm's own (see `config_of`). Nothing is opened before the arm is entered."""
        self._spec = spec
        self._folder = Path(config.output.output_dir)
        self._events: list[AnyEvent] = []
        self._session = open_session(config, self._events.append, Timeline())

    @property
    def spec(self) -> Spec:
        """Which arm this is."""
        return self._spec

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._folder

    @property
    def card(self) -> Card:
        """The loaded model's card."""
        return self._session.load().card

    def __enter__(self) -> Self:
        """Hold the output folder."""
        self._session.__enter__()
        self._session.hold()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker."""
        self._session.__exit__(kind, value, trace)

    def load(self) -> Ready:
        """Start the worker and wait for the model."""
        loaded = self._session.ready()
        seconds = max(event.seconds for event in self._events if isinstance(event, ModelReady))
        return Ready(seconds, loaded.info.pipeline, loaded.device, loaded.info.dtype)

    def plan(self, requests: Sequence[GenerationRequest]) -> list[PlannedRequest]:
        """The plans of `requests`; UsageError with all that is wrong with them."""
        planner = self._session.planner()
        rows = [Row(request, index) for index, request in enumerate(requests)]
        problems = {str(problem): None for row in rows for problem in planner.check(row)}
        if problems:
            raise UsageError("\n".join(problems))
        return [planner.plan(row) for row in rows]

    def run(self, requests: Sequence[GenerationRequest]) -> Round:
        """Render `requests`. Planning is not measured: the plain loop has none."""
        planned = self.plan(requests)
        self._events.clear()
        start = time.monotonic()
        results = list(self._session.render(planned))
        seconds = time.monotonic() - start
        for result in results:
            if result.status != "done":
                reason = result.error.message if result.error else result.status
                raise failed(self._spec.name, result.id, reason)
        return Round(seconds, len(planned), tuple(self._events))


class Row:
    """A request of the bench as the planner wants it; a problem is told as the flag that caused it."""

    def __init__(self, request: GenerationRequest, index: int) -> None:
        self.request = request
        self.index = index
        self.line = index + 1

    def problem(self, field: str, message: str, allowed: str = "") -> Problem:
        """A problem of one flag; the same for every request, which all have the same values."""
        flag = "--resolution" if field in ("height", "width") else f"--{field.replace('_', '-')}"
        return Problem("bench", 0, 0, flag, message, allowed)
