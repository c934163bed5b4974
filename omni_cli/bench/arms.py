"""The arms: ways of getting the same requests to disk. Each loads the model once and works only when it is its turn.

plain      the loop a user of diffusers writes, in a process of its own
no-async   the engine, output packed before the next forward begins
async      the engine as it is
...-batch  the same with several requests per pipeline call
...-float  the same with the conversion to uint8 on the host: floats travel
...-whole  the same with every video decoded whole before its first frame leaves
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import msgspec

from omni_cli.config import RunConfig, VideoOutputTransport
from omni_cli.errors import EngineError, UsageError
from omni_cli.events import AnyEvent
from omni_cli.request import GenerationRequest, PlannedRequest

PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Spec:
    """What makes an arm differ from the others."""

    name: str
    async_output: bool = True
    batched: bool = False
    levels: bool = True
    chunked: bool = True


SPECS = {
    spec.name: spec
    for spec in (
        Spec(PLAIN),
        Spec("no-async", async_output=False),
        Spec("async"),
        Spec("no-async-batch", async_output=False, batched=True),
        Spec("async-batch", batched=True),
        Spec("no-async-float", async_output=False, levels=False),
        Spec("async-float", levels=False),
        Spec("no-async-whole", async_output=False, chunked=False),
        Spec("async-whole", chunked=False),
    )
}


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of one arm: `seconds` from the first request handed over to the last file in place, and what happened."""

    seconds: float
    requests: int
    events: tuple[AnyEvent, ...]

    @property
    def seconds_per_request(self) -> float:
        """Seconds each request took of the wall clock."""
        return self.seconds / self.requests


@dataclass(frozen=True, slots=True)
class Ready:
    """A loaded arm: seconds from process start to ready, and what it runs on (`device_name` where it is known)."""

    seconds: float
    pipeline: str
    device: str
    dtype: str
    device_name: str = ""


class Arm(Protocol):
    """A way to render requests, with its own output folder."""

    @property
    def spec(self) -> Spec:
        """Which arm this is."""

    @property
    def folder(self) -> Path:
        """Where its files are."""

    def load(self) -> Ready:
        """Load the model; returns when it is ready. Raises EngineError."""

    def run(self, requests: Sequence[GenerationRequest]) -> Round:
        """Render `requests` and wait for their files. Raises EngineError if one fails."""

    def __enter__(self) -> Self:
        """Open what the arm needs."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End its processes."""


Plan = Callable[[Sequence[GenerationRequest]], Sequence[PlannedRequest]]


def chosen(names: str | None, batch_size: int) -> tuple[Spec, ...]:
    """The arms that `names` (separated by commas) asks for; None: plain, no-async, async, and with a batch size the batched.

    Raises UsageError for an unknown arm, a batched one without a batch size, or none that runs the engine.
    """
    if names is None:
        batched = ["no-async-batch", "async-batch"] if batch_size > 1 else []
        return tuple(SPECS[name] for name in [PLAIN, "no-async", "async", *batched])
    found = dict.fromkeys(name.strip() for name in names.split(",") if name.strip())
    for name in found:
        if name not in SPECS:
            raise UsageError(f"--arms: there is no arm {name!r}; there are: {', '.join(SPECS)}")
        if SPECS[name].batched and batch_size < 2:
            raise UsageError(f"--arms: {name} needs --batch-size 2 or more")
    if not set(found) - {PLAIN}:
        raise UsageError("--arms: needs at least one arm of the engine, such as async")
    return tuple(SPECS[name] for name in found)


def config_of(spec: Spec, base: RunConfig, folder: Path) -> RunConfig:
    """The settings of an engine arm: `base`, its own folder, and what its spec changes."""
    replace = msgspec.structs.replace
    transport = base.engine.transport if spec.levels else VideoOutputTransport(enable_device_postprocess=False)
    engine = replace(
        base.engine,
        async_output=spec.async_output,
        chunked_decode=spec.chunked and base.engine.chunked_decode,
        batch_size=base.engine.batch_size if spec.batched else 1,
        transport=transport,
    )
    return replace(base, engine=engine, output=replace(base.output, output_dir=str(folder), overwrite=True))


def failed(arm: str, request: str, reason: str) -> EngineError:
    """A bench has no use for a round in which something failed."""
    return EngineError(f"bench: arm {arm}: request {request!r} failed: {reason}")
