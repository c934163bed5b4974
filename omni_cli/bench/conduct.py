"""The order of things: load, warm up, calibrate, then rounds in which every arm has its turn.

round 1:  plain     no-async  async          one arm works, the others sleep in a read or a wait
round 2:  no-async  async     plain          the order turns, so that no arm always follows the same one
round 3:  async     plain     no-async
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from omni_cli.bench.arms import Arm, Ready, Round
from omni_cli.bench.load import Counts, requests_of, settle
from omni_cli.request import GenerationRequest

Say = Callable[[str], None]
"""One line for people."""

WARM_UP = 2
"""Requests of the warm-up: the first pays for lazy initialisation, the second tells how long a request takes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the arms did: by name, in the order of the arms; every arm has as many rounds. `requests` are those of the last."""

    ready: dict[str, Ready]
    rounds: dict[str, list[Round]]
    requests: tuple[GenerationRequest, ...]

    def seconds(self, arm: str) -> list[float]:
        """Seconds per request of that arm, round by round."""
        return [turn.seconds_per_request for turn in self.rounds[arm]]


def conduct(arms: Sequence[Arm], fields: GenerationRequest, counts: Counts, batch_size: int, say: Say) -> Measured:
    """Measure all `arms`, which are entered, on requests with the values of `fields`."""
    ready = {}
    for arm in arms:
        ready[arm.spec.name] = arm.load()
        say(f"{arm.spec.name}: model loaded in {ready[arm.spec.name].seconds:.1f} s")
    paces = [_warm_up(arm, fields, batch_size, say) for arm in arms]
    requests, rounds = settle(counts, paces, batch_size)
    say(f"{rounds} rounds of {requests} requests, about {rounds * requests * sum(paces):.0f} s")
    turns: dict[str, list[Round]] = {arm.spec.name: [] for arm in arms}
    asked: tuple[GenerationRequest, ...] = ()
    for number in range(rounds):
        asked = requests_of(fields, requests, WARM_UP * batch_size + number * requests)
        for arm in _rotated(arms, number):
            turns[arm.spec.name].append(arm.run(asked))
        paces_now = (f"{arm.spec.name} {1 / turns[arm.spec.name][-1].seconds_per_request:.4g}/s" for arm in arms)
        say(f"round {number + 1} of {rounds}: {', '.join(paces_now)}")
    return Measured(ready, turns, asked)


def _warm_up(arm: Arm, fields: GenerationRequest, batch_size: int, say: Say) -> float:
    """Two calls of the sizes to come; seconds per request of the second."""
    size = batch_size if arm.spec.batched else 1
    pace = [arm.run(requests_of(fields, size, turn * size)).seconds_per_request for turn in range(WARM_UP)][-1]
    say(f"{arm.spec.name}: warm, {pace:.3g} s per request")
    return pace


def _rotated(arms: Sequence[Arm], number: int) -> list[Arm]:
    """`arms` begun at another one each round."""
    start = number % len(arms)
    return [*arms[start:], *arms[:start]]


def as_levels(requests: Sequence[GenerationRequest]) -> tuple[GenerationRequest, ...]:
    """The same requests written as arrays of levels: what an encoder gets to see."""
    return tuple(msgspec.structs.replace(request, format="npy") for request in requests)
