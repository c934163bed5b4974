"""Report each denoising step of a pipeline, and stop it early.

diffusers' official hook is `callback_on_step_end`. Pipelines without it all drive a progress bar, which is replaced by
one that reports. A pipeline skips the remaining steps when its `interrupt` is set, or when the bar that it iterates
over ends.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from omni_cli.errors import RequestCancelled
from omni_cli.worker.runner_protocol import IsCancelled, OnState, Picture, StepState

MakePreviews = Callable[[int, int, Any | None, Any | None], tuple[tuple[Picture, ...], str | None]]
"""(step, total, sigma, latents) -> the previews that are due, and why there will be no more, reported once."""


class StepReporter:
    """The steps of several pipeline calls, numbered consecutively and reported to `on_state`.

    A call may run its steps in several rounds, such as one per chunk of a clip. The number of rounds is not known in
    advance, so the total grows with each. The step number never decreases.
    """

    def __init__(self, calls: int, on_state: OnState, is_cancelled: IsCancelled) -> None:
        """Start before the first of `calls` calls."""
        self._calls = calls
        self._on_state = on_state
        self._is_cancelled = is_cancelled
        self._call = 0
        self._steps_of_past_calls = 0
        self._steps_of_past_rounds = 0  # in the current call
        self._step, self._round_steps = 0, 0  # in the current round
        self._make_previews: MakePreviews | None = None
        self._stop_step: int | None = None
        self._stop_total = 0
        self._can_stop = True

    def next_call(self) -> None:
        """Begin the next call. Raises RequestCancelled if the batch has been cancelled."""
        if self._is_cancelled():
            raise RequestCancelled("cancelled before its forward pass began")
        self._steps_of_past_calls += self._steps_of_past_rounds + self._round_steps
        self._steps_of_past_rounds = self._step = self._round_steps = 0
        self._call += 1

    def retry_call(self, parts: int) -> None:
        """Restart the step count of the current call, which failed and is retried as `parts` calls."""
        self._steps_of_past_rounds = self._step = self._round_steps = 0
        self._call -= 1
        self._calls += parts - 1

    @property
    def stopped_at(self) -> int | None:
        """The step after which all calls were stopped; None if they ran to the end."""
        return self._stop_step if self._can_stop else None

    @property
    def notes(self) -> tuple[str, ...]:
        """A note on a requested early stop; empty if there was none."""
        if self._stop_step is None:
            return ()
        if self._can_stop:
            return (f"stopped early: after step {self._stop_step} of {self._stop_total}",)
        return (f"asked to stop after step {self._stop_step}: this pipeline cannot, and did all {self._stop_total}",)

    def report(
        self, step: int, total: int, timestep: Any | None = None, sigma: Any | None = None, latents: Any | None = None
    ) -> bool:
        """Report step `step` of `total` of the current call, counted from 1; return False if it is to be the last one.

        A stop applies to the same step of all later calls, so that the samples of a request are alike.
        Raises RequestCancelled if the batch has been cancelled.
        """
        total = max(total, step)
        pictures, fault = self._make_previews(step, total, sigma, latents) if self._make_previews else ((), None)
        if step <= self._step:  # a new round
            self._steps_of_past_rounds += self._round_steps
        self._step, self._round_steps = step, total
        steps_done = self._steps_of_past_calls + self._steps_of_past_rounds + step
        calls_left = self._calls - self._call + 1
        steps_total = self._steps_of_past_calls + calls_left * (self._steps_of_past_rounds + total)
        go_on = self._on_state(StepState(steps_done, steps_total, timestep, sigma, latents, pictures, fault))
        if self._is_cancelled():
            raise RequestCancelled(f"cancelled at step {step} of {total}")
        if self._stop_step is None and not go_on and step < total:
            self._stop_step, self._stop_total = step, total
        return self._stop_step is None or step < self._stop_step

    def attach(
        self, pipeline: Any, parameters: tuple[str, ...], num_steps: int, make_previews: MakePreviews | None = None
    ) -> dict[str, Any]:
        """Return the arguments that make the next call of `pipeline` report its steps.

        `num_steps` is the requested number of steps, for pipelines that do not know their own.
        """
        self._make_previews = make_previews
        if "callback_on_step_end" in parameters:
            return {"callback_on_step_end": lambda pipe, i, t, values: self._on_step_end(pipe, i, t, values, num_steps)}
        pipeline.progress_bar = lambda iterable=None, total=None, **_: _ProgressBar(self, iterable, total or num_steps)
        return {}

    def mark_unstoppable(self) -> None:
        """Note that the pipeline runs all its steps even if it is asked to stop."""
        self._can_stop = False

    def _on_step_end(
        self, pipeline: Any, index: int, timestep: Any, values: dict[str, Any], num_steps: int
    ) -> dict[str, Any]:
        # A second-order scheduler takes more timesteps than the requested steps; the pipeline knows how many.
        total = getattr(pipeline, "num_timesteps", None) or num_steps
        if not self.report(index + 1, total, timestep, _sigma(pipeline), values.get("latents")):
            if isinstance(getattr(type(pipeline), "interrupt", None), property):
                pipeline._interrupt = True  # each call begins by setting it to False
            else:
                self.mark_unstoppable()
        return values


def _sigma(pipeline: Any) -> Any | None:
    """Return the noise level left after the last step; None if the scheduler has none."""
    scheduler = getattr(pipeline, "scheduler", None)
    sigmas, index = getattr(scheduler, "sigmas", None), getattr(scheduler, "step_index", None)
    return sigmas[index] if sigmas is not None and index is not None and index < len(sigmas) else None


class _ProgressBar:
    """The part of tqdm's interface that pipelines use."""

    def __init__(self, reporter: StepReporter, iterable: Any, total: int) -> None:
        self._reporter = reporter
        self._iterable = iterable
        self._total = len(iterable) if iterable is not None else total
        self._step = 0
        self._go_on = True

    def __enter__(self) -> "_ProgressBar":
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
        """Report `n` more steps."""
        self._step += n
        self._go_on = self._reporter.report(self._step, self._total)
        if not self._go_on and self._iterable is None:
            self._reporter.mark_unstoppable()

    def close(self) -> None:
        """Do nothing."""
