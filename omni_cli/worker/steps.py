"""Hearing of each denoising step, and ending at one.

diffusers has one official way, `callback_on_step_end`; pipelines without it all drive a progress bar, so theirs is replaced by
one that reports. A pipeline skips the steps that are left when its `interrupt` is set, or when the bar it iterates over ends.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from omni_cli.errors import RequestCancelled
from omni_cli.worker.protocol import OnState, Picture, StepState

Sketcher = Callable[[int, int, Any | None, Any | None], tuple[tuple[Picture, ...], str | None]]
"""(step, total, sigma, latents) -> the previews that are due, and why there will be none if that has just turned out."""


class Steps:
    """Counts the steps of `calls` pipeline calls as one run of steps.

    A call may go through its steps several times, once for each chunk of a clip: how often shows only as it does, so the total
    grows, and the count never goes back.
    """

    def __init__(self, calls: int, on_state: OnState, stop: Callable[[], bool]) -> None:
        self._calls = calls
        self._on_state = on_state
        self._stop = stop
        self._call = 0
        self._finished = 0  # steps of the calls before this one
        self._rounds = 0  # steps of this call's rounds before the present one
        self._step, self._of = 0, 0  # the present round's
        self._sketcher: Sketcher | None = None
        self._last: int | None = None
        self._can_stop = True
        self._total = 0

    def next_call(self) -> None:
        """Begin the next call; RequestCancelled if it is no longer wanted."""
        if self._stop():
            raise RequestCancelled("cancelled before its forward pass began")
        self._finished += self._rounds + self._of
        self._rounds = self._step = self._of = 0
        self._call += 1

    def again(self, parts: int) -> None:
        """The call that was begun has come to nothing; it will be done in `parts` calls."""
        self._rounds = self._step = self._of = 0
        self._call -= 1
        self._calls += parts - 1

    @property
    def stopped_at(self) -> int | None:
        """The step after which every call was cut short; None if they went to the end."""
        return self._last if self._can_stop else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of the wish to stop early."""
        if self._last is None:
            return ()
        if self._can_stop:
            return (f"stopped early: after step {self._last} of {self._total}",)
        return (f"asked to stop after step {self._last}: this pipeline cannot, and did all {self._total}",)

    def done(
        self, step: int, total: int, timestep: Any | None = None, sigma: Any | None = None, latents: Any | None = None
    ) -> bool:
        """Step `step` of `total` of this call is done, counted from 1; False if it is to be the last one.

        Once a call was told to end at a step, those after it end at the same one unasked: the outputs of a request are alike.
        Raises RequestCancelled if nothing is wanted any more.
        """
        total = max(total, step)
        pictures, fault = self._sketcher(step, total, sigma, latents) if self._sketcher is not None else ((), None)
        if step <= self._step:
            self._rounds += self._of
        self._step, self._of = step, total
        left = (self._calls - self._call + 1) * (self._rounds + total)
        whole = self._finished + self._rounds + step, self._finished + left
        go_on = self._on_state(StepState(*whole, timestep, sigma, latents, pictures, fault))
        if self._stop():
            raise RequestCancelled(f"cancelled at step {step} of {total}")
        if self._last is None and not go_on and step < total:
            self._last, self._total = step, total
        return self._last is None or step < self._last

    def attach(
        self, pipeline: Any, parameters: tuple[str, ...], wanted: int, sketcher: Sketcher | None = None
    ) -> dict[str, Any]:
        """Keywords that make `pipeline` report to this; `wanted` is the number of steps asked for."""
        self._sketcher = sketcher
        if "callback_on_step_end" in parameters:
            return {"callback_on_step_end": lambda pipe, i, t, values: self._callback(pipe, i, t, values, wanted)}
        pipeline.progress_bar = lambda iterable=None, total=None, **_: _Bar(self, iterable, total or wanted)
        return {}

    def cannot_stop(self) -> None:
        """The pipeline goes through all its steps whatever it is told."""
        self._can_stop = False

    def _callback(
        self, pipeline: Any, index: int, timestep: Any, values: dict[str, Any], wanted: int
    ) -> dict[str, Any]:
        # A second-order scheduler takes more timesteps than the steps that were asked for; the pipeline knows how many.
        total = getattr(pipeline, "num_timesteps", None) or wanted
        if not self.done(index + 1, total, timestep, _sigma(pipeline), values.get("latents")):
            if isinstance(getattr(type(pipeline), "interrupt", None), property):
                pipeline._interrupt = True  # each call begins by setting it to False
            else:
                self.cannot_stop()
        return values


def _sigma(pipeline: Any) -> Any | None:
    """The noise level after the step that was done, as the scheduler keeps it; None where it keeps none."""
    scheduler = getattr(pipeline, "scheduler", None)
    sigmas, index = getattr(scheduler, "sigmas", None), getattr(scheduler, "step_index", None)
    return sigmas[index] if sigmas is not None and index is not None and index < len(sigmas) else None


class _Bar:
    """The part of a tqdm bar that pipelines use."""

    def __init__(self, steps: Steps, iterable: Any, total: int) -> None:
        self._steps = steps
        self._iterable = iterable
        self._total = len(iterable) if iterable is not None else total
        self._step = 0
        self._go_on = True

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
            if not self._go_on:
                return

    def update(self, n: int = 1) -> None:
        """`n` more steps are done."""
        self._step += n
        self._go_on = self._steps.done(self._step, self._total)
        if not self._go_on and self._iterable is None:
            self._steps.cannot_stop()

    def close(self) -> None:
        """Nothing is on screen."""
