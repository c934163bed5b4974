"""What is rendered: the same requests for every arm, new ones each round, and how many of them."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import msgspec

from omni_cli.errors import UsageError
from omni_cli.models.demo.scenes import all_scenes, caption
from omni_cli.request import GenerationRequest

BUDGET_S = 150.0
"""Seconds that the measured rounds should take where nobody says how many; warm-up and loading come on top."""

REQUESTS = (4, 16)
ROUNDS = (3, 9)
FEWEST_ROUNDS_PLANNED = 4


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests per round and rounds; None: as many as fit the budget."""

    requests: int | None = None
    rounds: int | None = None


def requests_of(fields: GenerationRequest, count: int, first: int = 0) -> tuple[GenerationRequest, ...]:
    """Requests `first` to `first + count - 1` of an endless row, with the values of `fields`.

    Each has its own prompt (903 of them) and seed, so that nothing that is kept from one round can serve in another; ids, and
    with them file names, are counted from 0 in each call.
    """
    prompts = _prompts()
    return tuple(
        msgspec.structs.replace(
            fields, id=f"{number:04d}", prompt=prompts[(first + number) % len(prompts)], seed=first + number
        )
        for number in range(count)
    )


@cache
def _prompts() -> tuple[str, ...]:
    """All sentences of the embedded model, mixed: neighbours in their own order are nearly the same."""
    scenes = all_scenes()
    return tuple(caption(scene) for scene in random.Random(0).sample(scenes, len(scenes)))


def settle(counts: Counts, seconds: Sequence[float], batch_size: int) -> tuple[int, int]:
    """(requests, rounds) for arms that take `seconds` per request each.

    Many requests per round come first: the output of a round's last one has nothing to hide behind. With batches, a round
    holds whole batches, at least four, so that there is a forward to overlap with.
    """
    each = sum(seconds)
    requests = counts.requests
    if requests is None:
        low, high = REQUESTS
        rounds = counts.rounds or FEWEST_ROUNDS_PLANNED
        requests = min(high, max(low, math.floor(BUDGET_S / (each * rounds))))
        if batch_size > 1:
            requests = max(low, math.ceil(requests / batch_size)) * batch_size
    low, high = ROUNDS
    rounds = counts.rounds or min(high, max(low, math.floor(BUDGET_S / (each * requests))))
    return requests, rounds


def size_of(text: str) -> tuple[int, int]:
    """(width, height) in pixels of `768` (a square) or `832x480`. Raises UsageError."""
    width, times, height = text.lower().replace("×", "x").partition("x")
    parts = (width, height) if times else (width, width)
    if not all(part.isascii() and part.isdecimal() and 0 < int(part) <= 1 << 16 for part in parts):
        raise UsageError(f"--resolution {text}: must be pixels, such as 768 or 832x480")
    return int(parts[0]), int(parts[1])
