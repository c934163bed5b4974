"""Check files of embeddings and latents against the pipeline's call: names and shapes, from the files' headers."""

from collections.abc import Iterator, Mapping

from omni_cli.errors import Diagnostic, DiagnosticError
from omni_cli.inputs import InputFile, InputKind, input_files
from omni_cli.models.cards import Card
from omni_cli.models.keywords import NAMES, RESERVED, TEXTS
from omni_cli.planner.checks import probes
from omni_cli.planner.resolve import Resolved, SourcedRequest
from omni_cli.text import did_you_mean, quote

Shapes = Mapping[str, tuple[int, ...]]
"""Shape of each tensor in a file, by name."""

_NOT_TENSORS = RESERVED | {name for field, names in NAMES.items() if field != "latents" for name in names}
"""Keywords that a file of embeddings may not give."""


def tensor_problems(row: SourcedRequest, resolved: Resolved, card: Card) -> Iterator[Diagnostic]:
    """Yield what is wrong with the tensors of a request; `input_files` reports files that cannot be read."""
    for file in input_files(resolved.request):
        if file.kind not in (InputKind.TENSOR, InputKind.TENSORS):
            continue
        try:
            shapes = probes.tensors(file.path)
        except (DiagnosticError, OSError):
            continue
        if file.kind is InputKind.TENSORS:
            yield from _embedding_problems(row, resolved, card, shapes)
        else:
            yield from _single_tensor_problems(row, resolved, file, shapes)


def _embedding_problems(row: SourcedRequest, resolved: Resolved, card: Card, shapes: Shapes) -> Iterator[Diagnostic]:
    """Check that names are keywords of the call, that each tensor is of one sample, and that no text says the same."""
    field = "prompt_embeds"
    for name, shape in shapes.items():
        if not name:
            yield row.problem(field, "a .npy file names no tensors", "use .safetensors")
        elif name in _NOT_TENSORS or (card.parameters and name not in card.parameters):
            known = [keyword for keyword in card.parameters if keyword not in _NOT_TENSORS]
            remedy = did_you_mean(name, known, "name tensors as the pipeline names its keywords")
            yield row.problem(field, f"{card.pipeline} takes no tensor {quote(name)}", remedy)
        elif len(shape) < 2 or shape[0] != 1:
            remedy = "the first axis is the batch, and a request is one sample: [1, ...]"
            yield row.problem(field, f"{name} has shape {list(shape)}", remedy)
    for text in TEXTS:
        if getattr(resolved.explicit, text) is not None and f"{text}_embeds" in shapes:
            yield row.problem(text, f"is given as text and as {text}_embeds", "keep one")
    if shapes and resolved.explicit.prompt is None and not any(name.startswith("prompt_embeds") for name in shapes):
        yield row.problem(field, "holds no prompt_embeds, and there is no prompt", "add one of them")


def _single_tensor_problems(
    row: SourcedRequest, resolved: Resolved, file: InputFile, shapes: Shapes
) -> Iterator[Diagnostic]:
    """Check that the file's tensor is unambiguous, and that latents are for one sample or for each output."""
    name = file.keyword or file.field
    prefix = f"{file.keyword}: " if file.keyword else ""
    if name not in shapes and len(shapes) != 1:
        cause = f"{prefix}{quote(file.path, 200)} holds {len(shapes)} tensors and none is named {name}"
        yield row.problem(file.field, cause, f"keep one, or name it {name}")
        return
    shape = shapes[name] if name in shapes else next(iter(shapes.values()))
    outputs = resolved.request.num_outputs or 1
    if file.field == "latents" and (len(shape) < 3 or shape[0] not in (1, outputs)):
        counts = f"1 or {outputs}" if outputs > 1 else "1"
        yield row.problem("latents", f"have shape {list(shape)}", f"the first axis is the batch: {counts}")
