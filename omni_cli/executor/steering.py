"""What is wanted of a call in step mode: on, hold, or enough. Asked after every step, told from any thread.

    pump ── arrived(step, answer) ──> held ── nothing in the way ──> answer(stop) ── PROCEED ──> worker
    any thread ── pause, resume, stop, go_on ──────┘

A step is held while the call is paused, or, where somebody takes the steps one by one, until the next one is asked for. To
cancel is the executor's: it ends the futures as well. An answer that comes too late, to a worker that is gone, does nothing.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

Answer = Callable[[bool], None]
"""Lets the worker go on from a step; True: it skips the steps that are left."""


@dataclass(frozen=True, slots=True)
class Latents:
    """`data` holds C-contiguous float32 of `shape`, as the pipeline keeps them: [B, C, H, W], [B, C, T, H, W], or packed."""

    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Step:
    """Denoising step `step` of `total`, counted from 1, is done. `timestep` was done, `sigma` is the noise level that is left."""

    step: int
    total: int
    timestep: float | None = None
    sigma: float | None = None
    latents: Latents | None = None


@dataclass(slots=True)
class _Held:
    """A step whose worker waits. `taken`: somebody has it in hand; `released`: and is done with it."""

    step: Step
    answer: Answer
    taken: bool = False
    released: bool = False


class Steering:
    """Leads one call; if its worker dies, the next one, whose steps begin again at 1."""

    def __init__(self, *, paced: bool = False, latents: bool = False) -> None:
        """`paced`: every step waits until it was taken and let go. `latents`: steps bring them."""
        self.latents = latents
        self.changed = threading.Condition()
        self._paced = paced
        self._paused = False
        self._stop = False
        self._stop_at: int | None = None
        self._held: dict[int, _Held] = {}

    def pause(self) -> None:
        """Hold the call at its next step, or at the one it waits at."""
        with self.changed:
            self._paused = True

    def resume(self) -> None:
        """End the pause."""
        with self.changed:
            self._paused = False
            self._let_go()

    def stop(self) -> None:
        """Enough: after the step it waits at, or else the next one, the rest is skipped and what there is is decoded.

        It ends a pause. If the worker dies before the picture is there, the next one ends at the same step.
        """
        with self.changed:
            self._stop = True
            if self._held and self._stop_at is None:
                self._stop_at = min(held.step.step for held in self._held.values())
            self._paused = False
            self._let_go()

    def free(self) -> None:
        """Nobody takes the steps one by one any more."""
        with self.changed:
            self._paced = False
            self._let_go()

    @property
    def waits(self) -> bool:
        """True if the call goes on only when somebody lets it."""
        return self._paused or self._paced

    @property
    def has_step(self) -> bool:
        """True if there is a step to `take`."""
        with self.changed:
            return any(not held.taken for held in self._held.values())

    def take(self) -> Step | None:
        """The step that nobody has seen yet, if there is one; its worker waits for `go_on`."""
        with self.changed:
            for held in self._held.values():
                if not held.taken:
                    held.taken = True
                    return held.step
            return None

    def go_on(self) -> None:
        """Let go of the steps that were taken."""
        with self.changed:
            for held in self._held.values():
                held.released = held.taken
            self._let_go()

    def ask(self, step: Step) -> bool:
        """True if `step` is to be the last one; waits as long as the call is held. For a forward on the caller's own thread."""
        answers: list[bool] = []
        self.arrived(0, step, answers.append)
        with self.changed:
            self.changed.wait_for(lambda: answers)
        return answers[0]

    def arrived(self, rpc_id: int, step: Step, answer: Answer) -> None:
        """The worker of call `rpc_id` has done `step` and waits for `answer`, which is called from here or a later thread."""
        with self.changed:
            if self._stop and self._stop_at is None:
                self._stop_at = step.step
            self._held[rpc_id] = _Held(step, answer)
            self._let_go()
            self.changed.notify_all()

    def notify(self) -> None:
        """Let those who wait for `changed` look again."""
        with self.changed:
            self.changed.notify_all()

    def _let_go(self) -> None:
        if self._paused:
            return
        for rpc_id, held in list(self._held.items()):
            if not self._paced or held.released or self._stop:
                del self._held[rpc_id]
                held.answer(self._stop_at is not None and held.step.step >= self._stop_at)
        self.changed.notify_all()
