"""Find out from a diffusers folder's files why it cannot be loaded, before any weight is read.

    folder ── each component ──> faults: what is wrong with a file or folder, and the remedy ── equal ones as one

Reads names, sizes, the first bytes of files and the headers of weights.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from omni_cli.storage.file_types import HEAD_BYTES, foreign_content

PICKLES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")
"""Suffixes of weight files that can run code when they are read."""

_KNOWN_LIBRARIES = ("diffusers", "transformers")
_WITHOUT_WEIGHTS = re.compile("Tokenizer|Processor|FeatureExtractor|Scheduler|Guidance")
_COMPONENT_FOLDERS = ("transformer", "unet", "vae", "scheduler", "text_encoder", "tokenizer")
_ROOT_CONFIGS = ("config.json", "scheduler_config.json", "tokenizer_config.json", "preprocessor_config.json")
"""Files of a component that lies in the model's folder itself, where diffusers looks if it has no folder of its own."""

_AGAIN = "download the model again"
_MAX_HEADER = 100 << 20
"""Bytes that the header of a safetensors file may have."""


class Component(NamedTuple):
    """An entry of model_index.json: the name of a component, the library of its class, and the class."""

    name: str
    library: str
    class_name: str


class Fault(NamedTuple):
    """What is wrong with one file or folder of a model: `place cause; remedy`."""

    place: str
    cause: str
    remedy: str


def folder_faults(
    folder: Path, components: list[Component], variant: str | None, replaced: frozenset[str] = frozenset()
) -> list[Fault]:
    """Return what keeps the pipeline in `folder` from being loaded; the weights of `replaced` come from elsewhere."""
    faults: list[Fault] = []
    for component in components:
        faults += _component_faults(folder, component, variant, component.name in replaced)
    return faults


def merged(faults: list[Fault]) -> str:
    """Return the first of `faults` and the number of others that are like it, as one sentence."""
    first = faults[0]
    others = sum(fault[1:] == first[1:] for fault in faults) - 1
    more = f" (and {others} more like it)" if others else ""
    return f"{first.place} {first.cause}{more}" + (f"; {first.remedy}" if first.remedy else "")


def file_fault(path: Path, place: str) -> Fault | None:
    """Return what is wrong with a file of a model, called `place` in the message; None if nothing is seen."""
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(HEAD_BYTES)
            if not size:
                return Fault(place, "is empty", _AGAIN)
            if content := foreign_content(head):
                return Fault(place, f"is {content.name}", content.remedy)
            if path.suffix == ".safetensors":
                return _safetensors_fault(place, head, size, stream.read(max(0, _header_end(head) - len(head))))
    except FileNotFoundError:
        return Fault(place, "is a link to a file that is missing", _AGAIN)
    except OSError as error:
        return Fault(place, f"cannot be read: {error.strerror}", "")
    if path.suffix == ".json" and not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return Fault(place, "is not JSON", _AGAIN)
    return None


def unfinished_download(folder: Path) -> str:
    """Return the first file that a broken-off download left in `folder`, or in the hub's cache around it, or ""."""
    if folder.parent.name == "snapshots":
        files = folder.parent.parent.joinpath("blobs").glob("*.incomplete")
    else:
        files = folder.joinpath(".cache", "huggingface", "download").rglob("*.incomplete")
    return next((file.name for file in sorted(files)), "")


def layout_hint(folder: Path) -> str:
    """Return what `folder`, which has no model_index.json, seems to be instead and what to do, or ""."""
    nested = next(
        (path for pattern in ("snapshots/*", "*") for path in sorted(folder.glob(f"{pattern}/{_INDEX}"))), None
    )
    if nested is not None:
        return f"there is one in {nested.parent.relative_to(folder)}: give that folder"
    components = [name for name in _COMPONENT_FOLDERS if (folder / name).is_dir()]
    if unfinished := unfinished_download(folder):
        return f"its download was broken off ({unfinished}): run it again"
    if len(components) > 1:
        return f"it has components ({', '.join(components)}), so its download is not complete: run it again"
    pickles = sorted(path.name for path in [*folder.glob("*"), *folder.glob("*/*")] if path.suffix in PICKLES)
    config = _read_object(folder / "config.json")
    if pickles or (folder / "model.safetensors.index.json").is_file():
        seen = f" ({pickles[0]})" if pickles else ""
        return (
            f"it is in its original layout{seen}: find the model in diffusers' layout, in a repository that is often "
            "named ...-Diffusers, or convert it"
        )
    if isinstance(config.get("_class_name"), str):
        return f"it is one component of a pipeline ({config['_class_name']}): give the folder of the whole pipeline"
    files = sorted(folder.glob("*.safetensors"))
    return f"if {files[0].name} is a whole model, give the file itself to --model" if len(files) == 1 else ""


def _component_faults(folder: Path, component: Component, variant: str | None, is_replaced: bool) -> Iterator[Fault]:
    name, path = component.name, folder / component.name
    if not path.is_dir():
        if not any((folder / config).is_file() for config in _ROOT_CONFIGS):
            yield Fault(name, f"({component.class_name}) has no folder", _again(folder))
        return
    files = {file.name: file for file in sorted(path.iterdir()) if not file.is_dir()}
    if not files:
        if not any(path.iterdir()):
            yield Fault(name, f"({component.class_name}) is an empty folder", _again(folder))
        return
    weights = [] if is_replaced else _chosen_weights(files, variant)
    texts = [file for file in files.values() if file.suffix in (".json", ".txt", ".model")]
    for file in [*texts, *weights]:
        if (fault := file_fault(file, f"{name}/{file.name}")) is not None:
            yield fault._replace(remedy=_again(folder) if fault.remedy == _AGAIN else fault.remedy)
    if not is_replaced:
        yield from _weight_faults(folder, component, files, weights, variant)


def _weight_faults(
    folder: Path, component: Component, files: dict[str, Path], weights: list[Path], variant: str | None
) -> Iterator[Fault]:
    """Yield weights that are missing, or that are there in another form only."""
    name = component.name
    variants = sorted({match[1] for file in files if (match := _VARIANT.search(file)) is not None})
    pickles = sorted(file for file in files if file.endswith(PICKLES))
    if not weights and variants:
        others = ", ".join(variants)
        cause = f"has no weights of the variant {variant}, but of {others}" if variant else f"has only {others} weights"
        yield Fault(name, cause, f"give the model to --model, with --variant {variants[0]}")
    elif not weights and pickles:
        yield Fault(
            name,
            f"has only {pickles[0]}, a pickle, which can run code when it is read",
            "omni-gen loads .safetensors only: find the model in that format, or convert it "
            "(diffusers: save_pretrained(..., safe_serialization=True))",
        )
    elif not weights and _needs_weights(component, files):
        yield Fault(name, "has a config.json but no weights (.safetensors)", _again(folder))
    of_variant = f".{variant}" if any(f".{variant}" in file.stem for file in weights) else ""
    for file in files.values():
        whole, found, suffix = file.name.partition(".safetensors.index")
        if not found or suffix != f"{of_variant}.json" or f"{whole}{of_variant}.safetensors" in files:
            continue
        parts = _read_object(file).get("weight_map")
        names = set(parts.values()) if isinstance(parts, dict) else set()
        missing = sorted(names - files.keys())
        if missing and (weights or not variants):
            cause = f"lacks {len(missing)} of {len(names)} parts of its weights ({missing[0]})"
            yield Fault(name, cause, _again(folder))


def _chosen_weights(files: dict[str, Path], variant: str | None) -> list[Path]:
    """Return the weights that diffusers loads: those of the variant, or else those of none."""
    weights = [file for name, file in files.items() if name.endswith(".safetensors")]
    of_variant = [file for file in weights if variant and f".{variant}" in file.stem]
    return of_variant or [file for file in weights if "." not in file.stem]


def _needs_weights(component: Component, files: dict[str, Path]) -> bool:
    return (
        component.library in _KNOWN_LIBRARIES
        and _WITHOUT_WEIGHTS.search(component.class_name) is None
        and "config.json" in files
    )


def _again(folder: Path) -> str:
    """Return the remedy for a file that is missing or damaged."""
    unfinished = unfinished_download(folder)
    return f"its download was broken off ({unfinished}): run it again, with the network" if unfinished else _AGAIN


def _header_end(head: bytes) -> int:
    length = int.from_bytes(head[:8], "little")
    return 8 + length if length <= _MAX_HEADER else 0


def _safetensors_fault(place: str, head: bytes, size: int, more: bytes) -> Fault | None:
    """Return what is wrong with a safetensors file of `size` bytes that starts with `head` and `more`."""
    end = _header_end(head)
    if head[8:9] != b"{" or not end:
        return Fault(place, "is not a safetensors file", _AGAIN)
    try:
        header = json.loads((head + more)[8:end])
        data = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        cause = "is cut short" if size < end else "is not a safetensors file"
        return Fault(place, cause, _AGAIN)
    if isinstance(data, int) and size < end + data:
        return Fault(place, f"is cut short: {size:,} of {end + data:,} bytes", _AGAIN)
    return None


def _read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


_INDEX = "model_index.json"
_VARIANT = re.compile(r"\.([A-Za-z0-9_]+)(?:-\d+-of-\d+)?\.safetensors\Z")
"""The variant in the name of a weight file: model.fp16.safetensors, model.fp16-00001-of-00002.safetensors."""
