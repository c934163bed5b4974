"""The files of a request: from its `output` field or the template to one relative path per output."""

from collections.abc import Sequence

from omni_cli.planner.naming import MAX_PART_BYTES, Misnamed, clean, fit, split_extension
from omni_cli.planner.template import NameTemplate
from omni_cli.prompts.shown import quoted
from omni_cli.request import GenerationRequest

_RESERVED = "manifest.jsonl"


def file_names(
    request: GenerationRequest, index: int, seeds: Sequence[int], template: NameTemplate, extension: str
) -> tuple[str, ...]:
    """POSIX paths relative to the output folder, one per seed; of several, the name ends in `-0`, `-1`, ...

    An extension that `output` carries is kept as written; else `extension` (with its dot) is added.
    Raises Misnamed for a name that leaves the folder, names a folder, or is reserved.
    """
    if request.output is not None:
        path, written = _output(request.output)
        extension = f".{written}" if written else extension
        stems = [path] * len(seeds)
    else:
        stems = [template.render(request, index, n, seed) for n, seed in enumerate(seeds)]
    several = len(seeds) > 1 and (request.output is not None or not template.numbered)
    room = MAX_PART_BYTES - len(extension) - (len(f"-{len(seeds) - 1}") if several else 0)
    return tuple(_placed(stem, room, (f"-{n}" if several else "") + extension) for n, stem in enumerate(stems))


def _output(output: str) -> tuple[str, str]:
    """(path without extension, extension as written) of an `output` field."""
    parts = output.split("/")
    if output.startswith("/") or ".." in parts:
        raise Misnamed("output", f"{quoted(output)} leaves the output folder", "give a relative path without ..")
    if parts[-1] in ("", "."):
        raise Misnamed("output", f"{quoted(output)} names a folder", "end it with a file name")
    stem, extension = split_extension(parts[-1])
    return "/".join([*(part for part in parts[:-1] if part not in ("", ".")), stem]), extension


def _placed(stem: str, room: int, ending: str) -> str:
    """The path `stem` + `ending` with every part clean and short enough."""
    *folders, name = stem.split("/")
    parts = [*(fit(clean(folder), MAX_PART_BYTES) for folder in folders), fit(clean(name), room) + ending]
    if parts[0].casefold() == _RESERVED:
        raise Misnamed("output", f"{quoted(parts[0])} is the journal's own name", "choose another")
    return "/".join(parts)
