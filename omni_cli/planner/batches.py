"""Which requests may share a pipeline call, and how a stream of them is cut into calls."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice

import msgspec

from omni_cli.inputs import reads_files
from omni_cli.models.cards import Card
from omni_cli.models.keywords import TEXTS
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.shape import Setup, Shape, Size
from omni_cli.writers.formats import LATENT

_FPS_KEYWORDS = {"fps", "frame_rate"}


def shape_of(request: GenerationRequest, card: Card) -> Shape:
    """Return the shape of a resolved request for the pipeline of `card`."""
    adapters = tuple((adapter.path, adapter.weight) for adapter in request.lora or ())
    setup = Setup(request.model, adapters, Size(request.height, request.width, request.num_frames))
    return Shape(setup, _batch_key(request, card))


def _batch_key(request: GenerationRequest, card: Card) -> str:
    """Return a stable hash of all that must be equal in one pipeline call; "" if each sample needs its own call.

    Samples differ in prompt, text of the negative prompt, and seed; every other keyword is one value for the whole
    call. A further prompt in `extra` (`prompt_2`, ...) is a single text, which a pipeline would pair with a list of
    first prompts, so such a request does not share; neither does one that reads files. Texts with weights are as long
    as their embeddings, so that only requests with the same ones share.
    """
    if not card.batchable or reads_files(request) or any("prompt" in key for key in request.extra or ()):
        return ""
    texts = {text: "" for text in TEXTS if getattr(request, text) is not None}
    conditions_on_fps = not _FPS_KEYWORDS.isdisjoint(card.parameters)
    shared = msgspec.structs.replace(
        request,
        id=None,
        seed=None,
        output=None,
        format=LATENT if request.format == LATENT else None,
        interpolate=None,
        fps=request.fps if conditions_on_fps else None,
        **({} if request.prompt_weighting else texts),
    )
    return blake2b(msgspec.msgpack.encode(shared, order="deterministic"), digest_size=16).hexdigest()


def batches(
    planned: Iterable[PlannedRequest], size: int | Callable[[str], int], look_ahead: int
) -> Iterator[tuple[PlannedRequest, ...]]:
    """Yield `planned` in calls of at most `size` outputs, each of one batch key; `size` may depend on the key.

    The oldest waiting request always goes next, with those of its key among the `look_ahead` requests behind it, in
    order. So no request starves, and at most `look_ahead` + 1 requests wait. A request of more than `size` outputs is a
    call of its own.
    """
    source = iter(planned)
    waiting: deque[PlannedRequest] = deque()
    while True:
        waiting.extend(islice(source, max(0, look_ahead) + 1 - len(waiting)))
        if not waiting:
            return
        yield tuple(_next_batch(waiting, size if isinstance(size, int) else size(waiting[0].shape.batch_key)))


def _next_batch(waiting: deque[PlannedRequest], size: int) -> list[PlannedRequest]:
    """Remove the first request, and those that join it, from `waiting` and return them."""
    head = waiting.popleft()
    key = head.shape.batch_key
    batch, outputs = [head], len(head.seeds)
    if not key or outputs >= size:
        return batch
    passed_over: list[PlannedRequest] = []
    while waiting and outputs < size:
        request = waiting.popleft()
        if request.shape.batch_key == key and outputs + len(request.seeds) <= size:
            batch.append(request)
            outputs += len(request.seeds)
        else:
            passed_over.append(request)
    waiting.extendleft(reversed(passed_over))
    return batch
