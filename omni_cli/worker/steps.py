"""Hearing of each denoising step, and stopping at one.

diffusers has one official way, `callback_on_step_end`; pipelines without it all drive a progress bar, so theirs is replaced by
one that reports.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from omni_cli.errors import RequestCancelled


class Steps:
    """Counts the steps of `calls` pipeline calls as one run of steps."""

    def __init__(self, calls: int, on_step: Callable[[int, int], None], stop: Callable[[], bool]) -> None:
        self._calls = calls
        self._on_step = on_step
        self._stop = stop
        self._call = 0

    def next_call(self) -> None:
        """Begin the next call; RequestCancelled if it is no longer wanted."""
        if self._stop():
            raise RequestCancelled("cancelled before its forward pass began")
        self._call += 1

    def again(self, parts: int) -> None:
        """The call that was begun has come to nothing; it will be done in `parts` calls."""
        self._call -= 1
        self._calls += parts - 1

    def done(self, step: int, total: int) -> None:
        """Step `step` of `total` of this call is done, counted from 1; RequestCancelled if no more are wanted."""
        total = max(total, step)
        self._on_step((self._call - 1) * total + step, self._calls * total)
        if self._stop():
            raise RequestCancelled(f"cancelled at step {step} of {total}")

    def attach(self, pipeline: Any, parameters: tuple[str, ...], wanted: int) -> dict[str, Any]:
        """Keywords that make `pipeline` report to this; `wanted` is the number of steps asked for."""
        if "callback_on_step_end" in parameters:
            return {"callback_on_step_end": lambda pipe, index, _, values: self._callback(pipe, index, values, wanted)}
        pipeline.progress_bar = lambda iterable=None, total=None, **_: _Bar(self, iterable, total or wanted)
        return {}

    def _callback(self, pipeline: Any, index: int, values: dict[str, Any], wanted: int) -> dict[str, Any]:
        # A second-order scheduler takes more timesteps than the steps that were asked for; the pipeline knows how many.
        self.done(index + 1, getattr(pipeline, "num_timesteps", None) or wanted)
        return values


class _Bar:
    """The part of a tqdm bar that pipelines use."""

    def __init__(self, steps: Steps, iterable: Any, total: int) -> None:
        self._steps = steps
        self._iterable = iterable
        self._total = len(iterable) if iterable is not None else total
        self._step = 0

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        for item in self._iterable:
            yield item
            self.update()

    def update(self, n: int = 1) -> None:
        """`n` more steps are done."""
        self._step += n
        self._steps.done(self._step, self._total)

    def close(self) -> None:
        """Nothing is on screen."""
