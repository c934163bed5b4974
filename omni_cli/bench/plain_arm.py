"""The plain loop's arm: drives `python -m omni_cli.bench.plain` over its standard input and output, one JSON line each way.

parent ── PlainModel · PlainRound ──> stdin     the child sleeps in read() between its turns
parent <── PlainReady · PlainDone ── stdout     anything else it prints goes to a log that is shown if it dies
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

import msgspec

from omni_cli.bench.arms import PLAIN, SPECS, Plan, Ready, Round, Spec
from omni_cli.config import ModelConfig
from omni_cli.errors import EngineError, UsageError
from omni_cli.events import AnyEvent, EncodeDone, ForwardDone, ForwardStarted
from omni_cli.models.cards import Card
from omni_cli.request import GenerationRequest, Interval, PlannedRequest

FORMATS = frozenset({"png", "jpeg", "webp", "mp4", "gif", "npy"})
"""Formats that a user of diffusers writes in one line."""

_LOG_TAIL = 4000
_EXIT_S = 10.0

T = TypeVar("T")


class PlainModel(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: what to load, and where files go."""

    model: ModelConfig
    card: Card
    folder: str


class PlainReady(msgspec.Struct, frozen=True, kw_only=True):
    """Answer: the model is loaded. `device_name` is the driver's word for the device, "" on a CPU."""

    pipeline: str
    device: str
    dtype: str
    device_name: str


class PlainRound(msgspec.Struct, frozen=True, kw_only=True):
    """Render these, one after the other."""

    requests: tuple[PlannedRequest, ...]


class PlainDone(msgspec.Struct, frozen=True, kw_only=True):
    """Answer: when each `pipe(...)` and each save ran, on the machine's monotonic clock."""

    forwards: tuple[Interval, ...]
    saves: tuple[Interval, ...]


class PlainArm:
    """See `arms.Arm`. Plans and card come from an arm of the engine, so that the requests are the same."""

    def __init__(self, model: ModelConfig, folder: Path, plan: Plan, card: Callable[[], Card]) -> None:
        """Nothing is started before `load`."""
        self._model, self._folder, self._plan, self._card = model, folder, plan, card
        self._stack = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def spec(self) -> Spec:
        """Which arm this is."""
        return SPECS[PLAIN]

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._folder

    def __enter__(self) -> Self:
        """Make the folder and the log."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log: IO[bytes] = self._stack.enter_context(tempfile.TemporaryFile(buffering=0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process: the end of its input tells it to leave."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            try:
                self._process.wait(_EXIT_S if kind is None else 0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
        self._stack.close()

    def load(self) -> Ready:
        """Start the process and wait for the model."""
        start = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "omni_cli.bench.plain"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            process_group=0,
        )
        ready = self._ask(PlainModel(model=self._model, card=self._card(), folder=str(self._folder)), PlainReady)
        return Ready(time.monotonic() - start, ready.pipeline, ready.device, ready.dtype, ready.device_name)

    def run(self, requests: Sequence[GenerationRequest]) -> Round:
        """One loop over `requests`; the time is what the loop itself measured, without the two messages."""
        planned = tuple(self._plan(requests))
        for request in planned:
            if request.request.format not in FORMATS:
                raise UsageError(
                    f"--format {request.request.format}: diffusers has no one-line way to write it; leave out the arm "
                    f"{PLAIN} with --arms, or take one of {', '.join(sorted(FORMATS))}"
                )
        done = self._ask(PlainRound(requests=planned), PlainDone)
        seconds = done.saves[-1].end - done.forwards[0].start
        return Round(seconds, len(planned), tuple(_events(planned, done)))

    def _ask(self, question: PlainModel | PlainRound, answer: type[T]) -> T:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(question) + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None
        line = process.stdout.readline()
        if not line:
            raise self._death()
        return msgspec.json.decode(line, type=answer)

    def _death(self) -> EngineError:
        """What the child's log says of its end."""
        assert self._process is not None
        code = self._process.wait()
        self._log.seek(0)
        tail = self._log.read()[-_LOG_TAIL:].decode("utf-8", "replace").strip()
        return EngineError(f"bench: the plain loop ended with code {code}; its log ends with:\n{tail or '(nothing)'}")


def _events(planned: Sequence[PlannedRequest], done: PlainDone) -> list[AnyEvent]:
    """The loop in the words of a run, so that one implementation computes the figures of all arms."""
    events: list[AnyEvent] = []
    for request, forward, save in zip(planned, done.forwards, done.saves, strict=True):
        ids, nothing = (request.id,), Interval(save.end, save.end)
        events += [
            ForwardStarted(at=forward.start, worker=0, ids=ids),
            ForwardDone(at=forward.end, worker=0, ids=ids, forward=forward),
            EncodeDone(at=save.end, id=request.id, encode=save, write=nothing),
        ]
    return events
