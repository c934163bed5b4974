"""The requests of a bench: the same for every arm, new ones each round, and how many of them."""

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
"""Seconds that the measured rounds take by default; loading and warm-up come on top."""

REQUESTS = (4, 16)
ROUNDS = (3, 9)
PLANNED_ROUNDS = 4
"""Rounds that the default number of requests leaves room for."""


@dataclass(frozen=True, slots=True)
class BenchSize:
    """Requests per round and rounds; None: as many as fit the budget."""

    requests: int | None = None
    rounds: int | None = None


def bench_requests(fields: GenerationRequest, count: int, first: int = 0) -> tuple[GenerationRequest, ...]:
    """Return requests `first` to `first + count - 1` of an endless sequence, with the values of `fields`.

    Each has its own prompt (of 903) and seed, so that nothing cached in one round serves another. Ids, and with them
    file names, count from 0 in each call.
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
    """Return all captions of the demo model's scenes, shuffled: neighbours in their own order are nearly the same."""
    scenes = all_scenes()
    return tuple(caption(scene) for scene in random.Random(0).sample(scenes, len(scenes)))


def choose_size(size: BenchSize, seconds_per_request: Sequence[float], batch_size: int) -> tuple[int, int]:
    """Return (requests, rounds) for arms that take `seconds_per_request`, one value per arm; set values are kept.

    Requests are increased before rounds: the output of a round's last request has no forward to overlap with. With
    batches, a round holds whole batches, at least four.
    """
    per_request = sum(seconds_per_request)
    requests = size.requests
    if requests is None:
        low, high = REQUESTS
        rounds = size.rounds or PLANNED_ROUNDS
        requests = min(high, max(low, math.floor(BUDGET_S / (per_request * rounds))))
        if batch_size > 1:
            requests = max(low, math.ceil(requests / batch_size)) * batch_size
    low, high = ROUNDS
    rounds = size.rounds or min(high, max(low, math.floor(BUDGET_S / (per_request * requests))))
    return requests, rounds


def parse_resolution(text: str) -> tuple[int, int]:
    """Return (width, height) in pixels of `768` (a square) or `832x480`. Raises UsageError."""
    width, times, height = text.lower().replace("×", "x").partition("x")
    parts = (width, height) if times else (width, width)
    if not all(part.isascii() and part.isdecimal() and 0 < int(part) <= 1 << 16 for part in parts):
        raise UsageError(f"--resolution {text}: must be pixels, such as 768 or 832x480")
    return int(parts[0]), int(parts[1])
