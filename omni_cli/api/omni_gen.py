"""`OmniGen`: the batch tool as a Python object.

with OmniGen(model="demo", output_dir="outputs") as gen:
    for result in gen.generate(["a red circle moving right on a blue background"]):
        print(result.status, [file.path for file in result.files])
"""

import numbers
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
from msgspec import structs

from omni_cli.api.session import Session
from omni_cli.api.stepwise_stream import StepwiseStream
from omni_cli.config import (
    AUTO_BATCH_SIZE,
    OUTPUT_TIMEOUT_S,
    RunConfig,
    VideoOutputTransport,
    check_engine,
    output_timeout,
)
from omni_cli.dependencies import check_dependencies
from omni_cli.errors import Diagnostic, UsageError
from omni_cli.events import Observer
from omni_cli.planner import Planner
from omni_cli.planner.problem_list import ProblemList
from omni_cli.planner.resolve import SourcedRequest
from omni_cli.prompts.expansion import Expander
from omni_cli.prompts.objects import validate_object
from omni_cli.prompts.row import LocatedRequest
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest, Result
from omni_cli.trace import Figures, Timeline
from omni_cli.transport.messages import Health

Request = GenerationRequest | Mapping[str, Any] | str
"""What `generate` accepts: a request, a mapping with the same fields (aliases too), or a bare prompt."""


class OmniGen:
    """A model and an output folder, which this process locks until the block ends."""

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        output_dir: str | os.PathLike[str] | None = None,
        device: str | None = None,
        dtype: str | None = None,
        batch_size: int | Literal["auto"] | None = None,
        async_output: bool | None = None,
        video_output_transport: VideoOutputTransport | Mapping[str, Any] | None = None,
        seed: int | None = None,
        config: RunConfig | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Take the settings; nothing is opened before the object is entered.

        `config` holds every setting, the named arguments the common ones; None leaves a setting to `config`, whose
        defaults are the model "demo", the folder "outputs", batches of 1, `async_output` and seed 0. A setting of
        `config` counts as set if it differs from its default: an argument that contradicts it raises UsageError, and
        fills it in otherwise. `video_output_transport` is `{"enable_device_postprocess": bool}`. `observer` is called
        with every event of the run, from any thread. Raises UsageError for a setting that cannot be used, and
        DependencyError if a required package is missing or too old.
        """
        check_dependencies()
        size = AUTO_BATCH_SIZE if batch_size == "auto" else _whole("batch_size", batch_size)
        if size is not None and size < 1 and batch_size != "auto":
            raise UsageError(f"batch_size={size}: must be 1 or more, or 'auto'")
        self.config = _merge(
            config or RunConfig(),
            model=_path("model", model),
            device=device,
            dtype=dtype,
            output_dir=_path("output_dir", output_dir),
            batch_size=size,
            async_output=async_output,
            video_output_transport=_transport(video_output_transport),
            seed=_whole("seed", seed),
        )
        if self.config.engine.output_timeout == OUTPUT_TIMEOUT_S:  # not set: the environment may set it
            engine = structs.replace(self.config.engine, output_timeout=output_timeout())
            self.config = structs.replace(self.config, engine=engine)
        check_engine(self.config.engine)
        self._timeline = Timeline()
        self._session = Session(self.config, observer or (lambda event: None), self._timeline)
        self._expander = Expander(self.config)
        self._count = self._index = 0
        self._is_open = False
        self._running = 0

    def __enter__(self) -> Self:
        """Lock the output folder and start to load the model. Raises OutputFolderError."""
        self._is_open = True
        self._session.open_folder()
        self._session.start_engine()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the workers and unlock the folder."""
        self._is_open = False
        self._session.__exit__(kind, value, trace)

    @property
    def model(self) -> ModelInfo:
        """The model, once it is identified. Raises ModelLoadError or WorkerDied."""
        self._check_open()
        info = self._session.models.facts(None).info
        assert info is not None, "an engine was asked"
        return info

    @property
    def figures(self) -> Figures:
        """Device idle time, output hidden behind forwards, and the other figures of the run so far."""
        return self._timeline.figures()

    def generate(self, requests: Iterable[Request] | Request) -> Iterator[Result]:
        """Render `requests` and yield each one's row, its files in place, in completion order.

        A request that is already done in the output folder is skipped and yields nothing; equal requests without an id
        are numbered per call. A sequence is checked whole before anything is rendered; any other iterable is consumed
        as the run goes on. Leaving the loop early stops the run: the forwards that have begun are finished. Raises
        PromptFileError with every problem, UsageError if finished files would be replaced unasked, ModelLoadError, or
        WorkerDied.
        """
        self._check_open()
        if isinstance(requests, str | Mapping | GenerationRequest):
            requests = [requests]
        elif not isinstance(requests, Iterable):
            raise UsageError(f"generate: expected a request or an iterable of requests, got {type(requests).__name__}")
        self._session.wake_up()
        self._running += 1
        try:
            yield from self._session.render(self._planned(requests))
        finally:
            self._running -= 1

    def stream(self, request: Request, *, latents: bool = False) -> StepwiseStream:
        """Render `request` step by step under the caller's control, even if it is already done.

        `latents`: every step carries the pipeline's latents. Raises PromptFileError, UsageError if finished files would
        be replaced unasked or if the request becomes several, ModelLoadError, or WorkerDied.
        """
        self._check_open()
        self._session.wake_up()
        planned, *others = self._planned([request])
        if others:
            raise UsageError(
                f"stream: config.prompts makes {len(others) + 1} requests of this one; give them one by one"
            )
        return self._session.stream(planned, latents=latents)

    def sleep(self, level: int = 1) -> None:
        """Free device memory until `wake_up`, or until the next request.

        Level 1 keeps the weights in host memory; level 2 ends the worker processes, and waking up loads the model
        again. These are vLLM's levels. Raises UsageError for another level and while requests are rendered,
        ModelLoadError, WorkerDied or EngineError.
        """
        self._check_open()
        if level not in (1, 2):
            raise UsageError(f"sleep: level {level}: expected 1 (weights in host memory) or 2 (no weights)")
        if self._running or self._session.is_streaming:
            raise UsageError("sleep: requests are being rendered; exhaust or close what generate and stream returned")
        self._session.sleep(level)

    def wake_up(self) -> None:
        """Move the weights back to the device, or start to load them again; does nothing if they are there.

        Raises ModelLoadError, WorkerDied or EngineError.
        """
        self._check_open()
        self._session.wake_up()

    def health(self) -> tuple[Health, ...]:
        """Return for each worker the bytes of its tensors on the device, and what is in its ring.

        Waits until the model is loaded. Empty after `sleep(2)`. Raises ModelLoadError or WorkerDied.
        """
        self._check_open()
        return self._session.health()

    def _check_open(self) -> None:
        """Raise UsageError outside of the `with` block, which opens the folder and starts the engine."""
        if not self._is_open:
            raise UsageError("OmniGen is used in a with block: `with OmniGen(...) as gen: ... gen.generate(...)`")

    def _planned(self, requests: Iterable[Request]) -> Iterator[PlannedRequest]:
        """Return the plans of `requests`: a sequence is checked whole at once, another iterable as it is consumed.

        Raises PromptFileError, or UsageError if finished files would be replaced unasked.
        """
        planner = self._session.planner()
        rows = planner.selected(self._rows(requests))
        if isinstance(requests, Sequence):
            located = self._checked(planner, rows)
            self._session.check_finished_work(map(planner.plan, located))
            return map(planner.plan, located)
        return self._planned_one_by_one(planner, rows)

    def _planned_one_by_one(
        self, planner: Planner, rows: Iterable[SourcedRequest | Diagnostic]
    ) -> Iterator[PlannedRequest]:
        for row in rows:
            (located,) = self._checked(planner, [row])
            planned = planner.plan(located)
            self._session.check_finished_work([planned])
            yield planned

    def _rows(self, requests: Iterable[Request]) -> Iterator[SourcedRequest | Diagnostic]:
        """Yield what each request becomes, or its mistakes, numbered over all calls."""
        for request in requests:
            first, made = self._index, 0
            rows = validate_object(request, first, self.config.defaults, f"requests[{self._count}]")
            self._count += 1
            for row in self._expander.rows(rows, Path(), endless=True):
                made += isinstance(row, LocatedRequest)
                yield row
            self._index = first + max(made, 1)

    @staticmethod
    def _checked(planner: Planner, rows: Iterable[SourcedRequest | Diagnostic]) -> list[SourcedRequest]:
        """Return `rows`, which are all requests without a problem. Raises PromptFileError with every problem."""
        located: list[SourcedRequest] = []
        problems = ProblemList()
        for row in rows:
            if isinstance(row, Diagnostic):
                problems.add([row])
            else:
                problems.add(planner.check(row))
                located.append(row)
        problems.raise_if_any()
        return located


_SETTINGS: dict[str, tuple[str, str]] = {
    "model": ("model", "model"),
    "device": ("model", "device"),
    "dtype": ("model", "dtype"),
    "output_dir": ("output", "output_dir"),
    "batch_size": ("engine", "batch_size"),
    "async_output": ("engine", "async_output"),
    "video_output_transport": ("engine", "transport"),
    "seed": ("", "seed"),
}
"""Where each named argument of `OmniGen` is in RunConfig: section and field."""


def _merge(config: RunConfig, **arguments: Any) -> RunConfig:
    """Return `config` with the arguments that are not None. Raises UsageError for each that contradicts a set value."""
    problems: list[str] = []
    for name, value in arguments.items():
        if value is None:
            continue
        section, field = _SETTINGS[name]
        settings = getattr(config, section) if section else config
        current = getattr(settings, field)
        if current not in (getattr(type(settings)(), field), value):
            place = ".".join(filter(None, ("config", section, field)))
            problems.append(
                f"{name}={_shown(name, value)} contradicts {place}={_shown(name, current)}: "
                "leave out the argument, or give both the same value"
            )
        changed = structs.replace(settings, **{field: value})
        config = structs.replace(config, **{section: changed}) if section else changed
    if problems:
        raise UsageError("\n".join(problems))
    return config


def _whole(name: str, value: object) -> int | None:
    """Return the argument `name` as an int, numpy's whole numbers included. Raises UsageError for any other value."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
        raise UsageError(f"{name}={value!r}: expected a whole number")
    return None if value is None else int(value)


def _path(name: str, value: object) -> str | None:
    """Return the argument `name` as text. Raises UsageError for anything but text and paths."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name}={value!r}: expected text or a path")
    return None if value is None else os.fsdecode(value)


def _shown(name: str, value: Any) -> str:
    return repr("auto" if name == "batch_size" and value == AUTO_BATCH_SIZE else value)


def _transport(value: VideoOutputTransport | Mapping[str, Any] | None) -> VideoOutputTransport | None:
    if value is None or isinstance(value, VideoOutputTransport):
        return value
    try:
        return msgspec.convert(dict(value), VideoOutputTransport)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"video_output_transport: {error}; expected enable_device_postprocess: true or false"
        ) from error
