"""Decide after each denoising step of a call in step mode: continue, wait, or stop.

    pump ── on_step(step, reply) ──> pending ── no reason to wait ──> reply(stop) ── Proceed ──> worker
    any thread ── pause, resume, stop, release ──────┘

A step waits while the call is paused, or, with a paced controller, until it was taken and released. Cancelling is the
executor's part, because it ends the futures too. A reply to a worker that is gone has no effect.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

Reply = Callable[[bool], None]
"""Lets the worker continue after a step; True makes it skip the steps that are left."""


@dataclass(frozen=True, slots=True)
class Latents:
    """A copy of a call's latents: C-contiguous float32 of `shape`, [B, C, H, W], [B, C, T, H, W], or packed."""

    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class StepEvent:
    """The end of denoising step `step` of `total`, counted from 1.

    `timestep` is that of the step, `sigma` the noise level that is left.
    """

    step: int
    total: int
    timestep: float | None = None
    sigma: float | None = None
    latents: Latents | None = None


@dataclass(slots=True)
class _PendingStep:
    """A step whose worker waits for `reply`. `taken`: `take` has returned it. `released`: its taker is done with it."""

    step: StepEvent
    reply: Reply
    taken: bool = False
    released: bool = False


class StepController:
    """The decisions for one call. If its worker dies they apply to the retry, whose steps count from 1 again."""

    def __init__(self, *, paced: bool = False, latents: bool = False) -> None:
        """Create a controller.

        `paced`: each step waits until it was taken and released. `latents`: steps carry them.
        """
        self.latents = latents
        self.changed = threading.Condition()
        self._paced = paced
        self._paused = False
        self._stop = False
        self._stop_at: int | None = None
        self._pending: dict[int, _PendingStep] = {}

    def pause(self) -> None:
        """Make the call wait at its next step, or at the one it is at."""
        with self.changed:
            self._paused = True

    def resume(self) -> None:
        """End the pause."""
        with self.changed:
            self._paused = False
            self._reply()

    def stop(self) -> None:
        """Skip the steps after the pending one, or else after the next one, and decode what there is.

        Ends a pause. If the worker dies before the output is there, the retry stops at the same step.
        """
        with self.changed:
            self._stop = True
            if self._pending and self._stop_at is None:
                self._stop_at = min(pending.step.step for pending in self._pending.values())
            self._paused = False
            self._reply()

    def unpace(self) -> None:
        """Let this and all later steps continue without being taken."""
        with self.changed:
            self._paced = False
            self._reply()

    @property
    def waits(self) -> bool:
        """Whether the call is paused or paced."""
        return self._paused or self._paced

    @property
    def has_step(self) -> bool:
        """Whether `take` would return a step."""
        with self.changed:
            return any(not pending.taken for pending in self._pending.values())

    def take(self) -> StepEvent | None:
        """Return the pending step, once; its worker waits for `release`. None if there is no new step."""
        with self.changed:
            for pending in self._pending.values():
                if not pending.taken:
                    pending.taken = True
                    return pending.step
            return None

    def release(self) -> None:
        """Let the call continue after the steps that were taken."""
        with self.changed:
            for pending in self._pending.values():
                pending.released = pending.taken
            self._reply()

    def wait_for_decision(self, step: StepEvent) -> bool:
        """Block until the call may continue after `step`; return whether it is to be the last one.

        For a forward on the caller's own thread.
        """
        replies: list[bool] = []
        self.on_step(0, step, replies.append)
        with self.changed:
            self.changed.wait_for(lambda: replies)
        return replies[0]

    def on_step(self, rpc_id: int, step: StepEvent, reply: Reply) -> None:
        """Add the step of call `rpc_id`, whose worker waits for `reply`, now or on a later thread."""
        with self.changed:
            if self._stop and self._stop_at is None:
                self._stop_at = step.step
            self._pending[rpc_id] = _PendingStep(step, reply)
            self._reply()
            self.changed.notify_all()

    def notify(self) -> None:
        """Wake the threads that wait for `changed`."""
        with self.changed:
            self.changed.notify_all()

    def _reply(self) -> None:
        if self._paused:
            return
        for rpc_id, pending in list(self._pending.items()):
            if not self._paced or pending.released or self._stop:
                del self._pending[rpc_id]
                pending.reply(self._stop_at is not None and pending.step.step >= self._stop_at)
        self.changed.notify_all()
