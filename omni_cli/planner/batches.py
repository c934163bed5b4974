"""Which requests may share a pipeline call, and how a stream of them falls into calls."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice

import msgspec

from omni_cli.inputs import reads_files
from omni_cli.models.cards import Card
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.writers.formats import LATENT

_FPS_KEYWORDS = {"fps", "frame_rate"}


def batch_key(request: GenerationRequest, card: Card) -> str:
    """A stable hash of all that must be equal in one pipeline call; "" for a request that must go alone.

    Each sample has its own prompt, negative prompt text and seed; the rest is one keyword for all. A second prompt in
    `extra` is one text and would meet a list of first prompts, so such a request goes alone; so does one with inputs.
    """
    if not card.batchable or reads_files(request) or any("prompt" in key for key in request.extra or ()):
        return ""
    conditions_on_fps = not _FPS_KEYWORDS.isdisjoint(card.parameters)
    shared = msgspec.structs.replace(
        request,
        id=None,
        seed=None,
        output=None,
        format=LATENT if request.format == LATENT else None,
        interpolate=None,
        prompt=None if request.prompt is None else "",
        negative_prompt=None if request.negative_prompt is None else "",
        fps=request.fps if conditions_on_fps else None,
    )
    return blake2b(msgspec.json.encode(shared, order="deterministic"), digest_size=16).hexdigest()


def batches(
    planned: Iterable[PlannedRequest], size: int | Callable[[str], int], look_ahead: int
) -> Iterator[tuple[PlannedRequest, ...]]:
    """Group `planned` into calls of at most `size` outputs, each of one batch key; `size` may depend on the key, and change.

    The first request that waits always goes next, with those of its key among the `look_ahead` behind it, in their order:
    so nothing starves, and no more than `look_ahead` + 1 requests are held. One with more outputs than `size` goes alone.
    """
    source = iter(planned)
    waiting: deque[PlannedRequest] = deque()
    while True:
        waiting.extend(islice(source, max(0, look_ahead) + 1 - len(waiting)))
        if not waiting:
            return
        batch = _take(waiting, size if isinstance(size, int) else size(waiting[0].batch_key))
        yield tuple(batch)


def _take(waiting: deque[PlannedRequest], size: int) -> list[PlannedRequest]:
    """Remove the first request and those that join it from `waiting`."""
    head = waiting.popleft()
    batch, outputs = [head], len(head.seeds)
    if not head.batch_key or outputs >= size:
        return batch
    left: list[PlannedRequest] = []
    while waiting and outputs < size:
        request = waiting.popleft()
        if request.batch_key == head.batch_key and outputs + len(request.seeds) <= size:
            batch.append(request)
            outputs += len(request.seeds)
        else:
            left.append(request)
    waiting.extendleft(reversed(left))
    return batch
