"""`OmniGen`: the batch tool as a Python object.

with OmniGen(model="demo", output_dir="outputs") as gen:
    for result in gen.generate(["a red circle moving right on a blue background"]):
        print(result.status, [file.path for file in result.files])
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from omni_cli.api.session import Session
from omni_cli.api.stream import Stream
from omni_cli.config import (
    AUTO_BATCH_SIZE,
    OUTPUT_TIMEOUT_S,
    RunConfig,
    VideoOutputTransport,
    check_engine,
    output_timeout,
)
from omni_cli.errors import Problem, PromptFileError, UsageError
from omni_cli.events import AnyEvent, Observer
from omni_cli.planner import Planner
from omni_cli.planner.source import given_row
from omni_cli.prompts import Located
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest, Result
from omni_cli.trace import Figures, Timeline

Request = GenerationRequest | Mapping[str, Any] | str
"""What `generate` takes: a request, a mapping with the same fields (aliases too), or a bare prompt."""


class OmniGen:
    """A loaded model and an output folder that this process holds until the block ends."""

    def __init__(
        self,
        model: str = "demo",
        *,
        output_dir: str = "outputs",
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int | Literal["auto"] = 1,
        async_output: bool = True,
        video_output_transport: VideoOutputTransport | Mapping[str, Any] | None = None,
        seed: int = 0,
        config: RunConfig | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Settings only; nothing is opened before the object is entered.

        `config` gives every other setting; the named arguments are laid over it only where they are not at their default.
        `video_output_transport` is `{"enable_device_postprocess": bool}`. `observer` sees every event of the run, from any
        thread. Raises UsageError for a setting that cannot be used.
        """
        size = AUTO_BATCH_SIZE if batch_size == "auto" else batch_size
        if size < 1 and batch_size != "auto":
            raise UsageError(f"batch_size={batch_size}: must be 1 or more, or 'auto'")
        given = {"model": model, "device": device, "dtype": dtype}
        self.config = _laid_over(config or RunConfig(), given, output_dir, size, async_output, seed)
        if video_output_transport is not None:
            transport = _transport(video_output_transport)
            engine = msgspec.structs.replace(self.config.engine, transport=transport)
            self.config = msgspec.structs.replace(self.config, engine=engine)
        if self.config.engine.output_timeout == OUTPUT_TIMEOUT_S:  # nobody has said another: the environment may
            engine = msgspec.structs.replace(self.config.engine, output_timeout=output_timeout())
            self.config = msgspec.structs.replace(self.config, engine=engine)
        check_engine(self.config.engine)
        self._timeline = Timeline()
        self._session = Session(self.config, observer or _ignore, self._timeline)
        self._planner: Planner | None = None
        self._count = 0

    def __enter__(self) -> Self:
        """Hold the output folder and start loading the model. Raises OutputFolderError."""
        self._session.hold()
        self._session.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker, give the folder back."""
        self._session.__exit__(kind, value, trace)

    @property
    def model(self) -> ModelInfo:
        """What was loaded; waits for it. Raises ModelLoadError."""
        return self._session.load().info

    @property
    def figures(self) -> Figures:
        """Device idle, output hidden behind forwards, and the rest, so far."""
        return self._timeline.figures()

    def generate(self, requests: Iterable[Request] | Request) -> Iterator[Result]:
        """Render `requests` and yield each one's row as it ends, in completion order; files are in place by then.

        A request that is already done in the output folder is not rendered again and yields nothing. A sequence is checked
        whole before anything is rendered; any other iterable is taken as it comes. Raises PromptFileError with every problem
        found, ModelLoadError, or WorkerDied. Leaving the loop early stops the run: what has begun is finished.
        """
        if isinstance(requests, str | Mapping | GenerationRequest):
            requests = [requests]
        rows = self._checked(requests)
        planned = self._planned(list(rows) if isinstance(requests, Sequence) else rows)
        yield from self._session.render(planned)

    def stream(self, request: Request, *, latents: bool = False) -> Stream:
        """Render `request` step by step, in the caller's hands; one that is done already is rendered again.

        `latents`: every step brings the pipeline's latents. Raises PromptFileError, ModelLoadError, or WorkerDied.
        """
        (planned,) = self._planned(list(self._checked([request])))
        return self._session.stream(planned, latents=latents)

    def _checked(self, requests: Iterable[Request]) -> Iterator[Located]:
        """The requests in order; PromptFileError with every problem of a sequence, or of the one that is wrong."""
        whole = isinstance(requests, Sequence)
        problems: list[Problem] = []
        planner = self._the_planner()
        for request in requests:
            for row in given_row(request, self._count, self.config.defaults):
                found = [row] if isinstance(row, Problem) else planner.check(row)
                problems += found
                if isinstance(row, Located) and not found:
                    yield row
            self._count += 1
            if problems and not whole:
                break
        if problems:
            raise PromptFileError(problems)

    def _planned(self, rows: Iterable[Located]) -> Iterator[PlannedRequest]:
        planner = self._the_planner()
        return (planner.plan(row) for row in rows)

    def _the_planner(self) -> Planner:
        """One planner for the life of the object: ids and names stay unique over all calls of `generate`."""
        if self._planner is None:
            self._planner = self._session.planner()
        return self._planner


def _laid_over(
    config: RunConfig, model: dict[str, Any], output_dir: str, batch_size: int, async_output: bool, seed: int
) -> RunConfig:
    """`config` with the named arguments that differ from their defaults."""
    plain, replace = RunConfig(), msgspec.structs.replace
    said = {name: value for name, value in model.items() if value != getattr(plain.model, name)}
    engine: dict[str, Any] = {} if batch_size == plain.engine.batch_size else {"batch_size": batch_size}
    if not async_output:
        engine["async_output"] = False
    output = config.output if output_dir == plain.output.output_dir else replace(config.output, output_dir=output_dir)
    return replace(
        config,
        model=replace(config.model, **said),
        engine=replace(config.engine, **engine),
        output=output,
        seed=seed or config.seed,
    )


def _transport(value: VideoOutputTransport | Mapping[str, Any]) -> VideoOutputTransport:
    if isinstance(value, VideoOutputTransport):
        return value
    try:
        return msgspec.convert(dict(value), VideoOutputTransport)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"video_output_transport: {error}; it takes enable_device_postprocess: true or false"
        ) from error


def _ignore(event: AnyEvent) -> None:
    """Nobody looks."""
