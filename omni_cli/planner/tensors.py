"""Embeddings and latents against the pipeline that gets them: names and shapes, by the headers of the files."""

import difflib
from collections.abc import Iterator, Mapping

from omni_cli.errors import Problem
from omni_cli.inputs import InputFile, InputKind, input_files
from omni_cli.models.cards import Card
from omni_cli.models.keywords import NAMES, RESERVED, TEXTS
from omni_cli.planner import probes
from omni_cli.planner.located import Located
from omni_cli.planner.resolve import Resolved
from omni_cli.prompts.shown import quoted

_NOT_TENSORS = RESERVED | {name for field, names in NAMES.items() if field != "latents" for name in names}
"""Keywords that are no tensors of a request's own."""


def tensor_problems(located: Located, resolved: Resolved, card: Card) -> Iterator[Problem]:
    """What is wrong with the tensors of a request; a file that cannot be read at all is told of elsewhere."""
    for file in input_files(resolved.request):
        if file.kind not in (InputKind.TENSOR, InputKind.TENSORS):
            continue
        try:
            shapes = probes.tensors(file.path)
        except (probes.Unusable, OSError):
            continue
        if file.kind is InputKind.TENSORS:
            yield from _embeddings(located, resolved, card, shapes)
        else:
            yield from _one(located, resolved, file, shapes)


def _embeddings(
    located: Located, resolved: Resolved, card: Card, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[Problem]:
    """Every name is a keyword of the call, every tensor is of one sample, and no text says the same again."""
    field = "prompt_embeds"
    for name, shape in shapes.items():
        if not name:
            yield located.problem(field, "a .npy file names no tensors", "use .safetensors")
        elif name in _NOT_TENSORS or (card.parameters and name not in card.parameters):
            near = difflib.get_close_matches(
                name[:60], [one for one in card.parameters if one not in _NOT_TENSORS], n=1
            )
            advice = f"did you mean {near[0]}?" if near else "name tensors as the pipeline names its keywords"
            yield located.problem(field, f"{card.pipeline} takes no tensor {quoted(name)}", advice)
        elif len(shape) < 2 or shape[0] != 1:
            message = f"{name} has shape {list(shape)}"
            yield located.problem(field, message, "the first axis is the batch, and a request is one sample: [1, ...]")
    for text in TEXTS:
        if getattr(resolved.said, text) is not None and f"{text}_embeds" in shapes:
            yield located.problem(text, f"is given as text and as {text}_embeds", "keep one")
    if shapes and resolved.said.prompt is None and not any(name.startswith("prompt_embeds") for name in shapes):
        yield located.problem(field, "holds no prompt_embeds, and there is no prompt", "add one of them")


def _one(
    located: Located, resolved: Resolved, file: InputFile, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[Problem]:
    """A file of one tensor holds one; latents are for one sample, or for each output."""
    wanted = file.keyword or file.field
    start = f"{file.keyword}: " if file.keyword else ""
    if wanted not in shapes and len(shapes) != 1:
        message = f"{start}{quoted(file.path, 200)} holds {len(shapes)} tensors and none is named {wanted}"
        yield located.problem(file.field, message, f"keep one, or name it {wanted}")
        return
    shape = shapes[wanted] if wanted in shapes else next(iter(shapes.values()))
    outputs = resolved.request.num_outputs or 1
    if file.field == "latents" and (len(shape) < 3 or shape[0] not in (1, outputs)):
        counts = f"1 or {outputs}" if outputs > 1 else "1"
        yield located.problem("latents", f"have shape {list(shape)}", f"the first axis is the batch: {counts}")
