"""The arm of the plain loop: runs `python -m omni_cli.bench.plain_loop`, one JSON line per message.

parent ── PlainModel, PlainRound ──> stdin      the child blocks in read() between its turns
parent <── PlainReady, PlainDone ── stdout      everything else that it prints goes to a log, shown if it dies
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from omni_cli.bench.arms import PLAIN_TUNED, ArmSpec, LoadedArm, PlanRequests, Round
from omni_cli.child_process import ChildProcess, with_log_tail
from omni_cli.config import ModelConfig
from omni_cli.errors import EngineError, UsageError
from omni_cli.events import AnyEvent, EncodeDone, ForwardDone, ForwardStarted
from omni_cli.executor.worker_handle import worker_environment
from omni_cli.models.cards import Card
from omni_cli.request import GenerationRequest, Interval, PlannedRequest

FORMATS = frozenset({"png", "jpeg", "webp", "mp4", "gif", "npy"})
"""Formats that a user of diffusers writes with one call."""

_EXIT_S = 10.0
"""Seconds that the process has to exit after the last round."""

T = TypeVar("T")


class PlainModel(msgspec.Struct, frozen=True, kw_only=True):
    """The first message: the model to load, the folder for files, and whether to use torch's inference mode."""

    model: ModelConfig
    card: Card
    folder: str
    inference_mode: bool = False


class PlainReady(msgspec.Struct, frozen=True, kw_only=True):
    """The reply once the model is loaded. `device_name` is the driver's name of the device, "" on a CPU."""

    pipeline: str
    device: str
    dtype: str
    device_name: str


class PlainRound(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a round, to be rendered one after the other, with torch's intra-op threads or `threads`."""

    requests: tuple[PlannedRequest, ...]
    threads: int | None = None


class PlainDone(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a round: when each `pipe(...)` and each save ran, in seconds of the monotonic clock."""

    forwards: tuple[Interval, ...]
    saves: tuple[Interval, ...]


class PlainArm:
    """An arm that runs the plain loop; see `arms.Arm`.

    An engine arm gives plans and card, so that the requests are the same. The arm PLAIN_TUNED has the environment of
    the engine's workers, and inference mode.
    """

    def __init__(
        self, spec: ArmSpec, model: ModelConfig, folder: Path, plan: PlanRequests, card: Callable[[], Card]
    ) -> None:
        """Start nothing before `load`."""
        self.spec = spec
        self.folder = folder
        self._model, self._plan, self._card = model, plan, card
        self._process: ChildProcess | None = None

    @classmethod
    @contextmanager
    def open(
        cls, spec: ArmSpec, model: ModelConfig, folder: Path, plan: PlanRequests, card: Callable[[], Card]
    ) -> Iterator[Self]:
        """Create `folder`; end the process on leaving. Raises OSError if the folder cannot be created."""
        folder.mkdir(parents=True, exist_ok=True)
        arm = cls(spec, model, folder, plan, card)
        exit_timeout = 0.0
        try:
            yield arm
            exit_timeout = _EXIT_S
        finally:
            if arm._process is not None:
                with suppress(BrokenPipeError):
                    arm._process.stdin.close()  # at which it exits
                arm._process.wait_or_kill(exit_timeout)
                arm._process.close()

    def load(self) -> LoadedArm:
        """Start the process and wait for the model. Raises EngineError."""
        start = time.monotonic()
        command = (sys.executable, "-P", "-m", "omni_cli.bench.plain_loop")
        is_tuned = self.spec.name == PLAIN_TUNED
        self._process = ChildProcess.start(command, pipes=True, env=worker_environment() if is_tuned else None)
        first = PlainModel(model=self._model, card=self._card(), folder=str(self.folder), inference_mode=is_tuned)
        ready = self._ask(first, PlainReady)
        return LoadedArm(time.monotonic() - start, ready.pipeline, ready.device, ready.dtype, ready.device_name)

    def run(self, requests: Sequence[GenerationRequest], threads: int | None = None) -> Round:
        """Run the loop over `requests`; the seconds are those that the loop measured, without the two messages.

        `threads` are the intra-op threads, if not torch's default.
        Raises UsageError if diffusers has no one-line way to write the format, EngineError if the process dies.
        """
        planned = tuple(self._plan(requests))
        for request in planned:
            if request.request.format not in FORMATS:
                raise UsageError(
                    f"--format {request.request.format}: diffusers has no one-line way to write it; leave out the arm "
                    f"{self.spec.name} with --arms, or use one of {', '.join(sorted(FORMATS))}"
                )
        done = self._ask(PlainRound(requests=planned, threads=threads), PlainDone)
        seconds = done.saves[-1].end - done.forwards[0].start
        return Round(seconds, len(planned), tuple(_events(planned, done)))

    def _ask(self, question: PlainModel | PlainRound, answer: type[T]) -> T:
        process = self._process
        assert process is not None
        try:
            process.stdin.write(msgspec.json.encode(question) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            process.wait_or_kill()
            report = f"bench: the plain loop {process.exit_report()}"
            raise EngineError(with_log_tail(report, process.log_tail()))
        return msgspec.json.decode(line, type=answer)


def _events(planned: Sequence[PlannedRequest], done: PlainDone) -> list[AnyEvent]:
    """Return the loop as the events of a run, so that one implementation computes the figures of all arms."""
    events: list[AnyEvent] = []
    for request, forward, save in zip(planned, done.forwards, done.saves, strict=True):
        ids, nothing = (request.id,), Interval(save.end, save.end)
        events += [
            ForwardStarted(at=forward.start, worker=0, ids=ids),
            ForwardDone(at=forward.end, worker=0, ids=ids, forward=forward),
            EncodeDone(at=save.end, id=request.id, encode=save, write=nothing),
        ]
    return events
