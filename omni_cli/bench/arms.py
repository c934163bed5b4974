"""The arms of a bench: ways to write the files of the same requests. Each loads the model once and works in its turn.

plain      the loop that a user of diffusers writes, in a process of its own
...-tuned  the same loop with the engine's allocator, waiting threads and inference mode: the rest is the overlap's
no-async   the engine; an output is packed before the next forward starts
async      the engine with its defaults
...-batch  several requests per pipeline call
...-float  conversion to uint8 on the host: floats cross the transport
...-whole  every video decoded whole before its first frame is sent
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from omni_cli.config import RunConfig, VideoOutputTransport
from omni_cli.errors import UsageError
from omni_cli.events import AnyEvent
from omni_cli.request import GenerationRequest, PlannedRequest

PLAIN = "plain"
PLAIN_TUNED = "plain-tuned"

ShowLine = Callable[[str], None]
"""Shows one line of progress to a person."""

PlanRequests = Callable[[Sequence[GenerationRequest]], Sequence[PlannedRequest]]


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """The settings in which an arm differs from the others."""

    name: str
    is_engine: bool = True
    async_output: bool = True
    batched: bool = False
    device_postprocess: bool = True
    chunked_decode: bool = True


ARM_SPECS = {
    spec.name: spec
    for spec in (
        ArmSpec(PLAIN, is_engine=False),
        ArmSpec(PLAIN_TUNED, is_engine=False),
        ArmSpec("no-async", async_output=False),
        ArmSpec("async"),
        ArmSpec("no-async-batch", async_output=False, batched=True),
        ArmSpec("async-batch", batched=True),
        ArmSpec("no-async-float", async_output=False, device_postprocess=False),
        ArmSpec("async-float", device_postprocess=False),
        ArmSpec("no-async-whole", async_output=False, chunked_decode=False),
        ArmSpec("async-whole", chunked_decode=False),
    )
}


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of one arm: its events, and the seconds from submitting the first request to the last file in place."""

    seconds: float
    requests: int
    events: tuple[AnyEvent, ...]

    @property
    def seconds_per_request(self) -> float:
        """Wall-clock seconds per request."""
        return self.seconds / self.requests


@dataclass(frozen=True, slots=True)
class LoadedArm:
    """A loaded arm: seconds from process start to ready, and what it runs on; an unknown `device_name` is ""."""

    seconds: float
    pipeline: str
    device: str
    dtype: str
    device_name: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The rounds of all arms, by arm name in running order; every arm has as many.

    `requests` are those of the last round.
    """

    loaded: dict[str, LoadedArm]
    rounds: dict[str, list[Round]]
    requests: tuple[GenerationRequest, ...]

    def seconds(self, arm: str) -> list[float]:
        """Return the seconds per request of `arm`, round by round."""
        return [turn.seconds_per_request for turn in self.rounds[arm]]

    def last_rounds(self) -> dict[str, Round]:
        """Return the last round of each arm."""
        return {name: rounds[-1] for name, rounds in self.rounds.items()}


class Arm(Protocol):
    """An open way to render requests; `folder` is where it writes."""

    spec: ArmSpec
    folder: Path

    def load(self) -> LoadedArm:
        """Load the model and wait until it is ready. Raises EngineError."""

    def run(self, requests: Sequence[GenerationRequest]) -> Round:
        """Render `requests` and wait for their files. Raises EngineError if one fails."""


def select_arms(names: str | None, batch_size: int) -> tuple[ArmSpec, ...]:
    """Return the arms named in `names`, separated by commas, each once.

    None selects plain, no-async and async, and with a batch size above 1 the batched arms as well. Raises UsageError
    for an unknown arm, for a batched one without a batch size, and if no arm runs the engine.
    """
    if names is None:
        batched = ["no-async-batch", "async-batch"] if batch_size > 1 else []
        return tuple(ARM_SPECS[name] for name in [PLAIN, "no-async", "async", *batched])
    selected = dict.fromkeys(name.strip() for name in names.split(",") if name.strip())
    for name in selected:
        if name not in ARM_SPECS:
            raise UsageError(f"--arms: there is no arm {name!r}; choose from: {', '.join(ARM_SPECS)}")
        if ARM_SPECS[name].batched and batch_size < 2:
            raise UsageError(f"--arms: {name} needs --batch-size 2 or more")
    if not any(ARM_SPECS[name].is_engine for name in selected):
        raise UsageError("--arms: needs at least one arm of the engine, such as async")
    return tuple(ARM_SPECS[name] for name in selected)


def arm_config(spec: ArmSpec, base: RunConfig, folder: Path) -> RunConfig:
    """Return the settings of an engine arm: `base` with the output folder `folder` and the settings of `spec`."""
    replace = msgspec.structs.replace
    floats = VideoOutputTransport(enable_device_postprocess=False)
    engine = replace(
        base.engine,
        async_output=spec.async_output,
        chunked_decode=spec.chunked_decode and base.engine.chunked_decode,
        batch_size=base.engine.batch_size if spec.batched else 1,
        transport=base.engine.transport if spec.device_postprocess else floats,
    )
    return replace(base, engine=engine, output=replace(base.output, output_dir=str(folder), overwrite=True))
