"""Input files, looked at before anything runs: there, plain, readable, and pictures where pictures are meant."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from omni_cli.errors import Problem
from omni_cli.inputs import InputFile, InputKind, input_files, is_clip
from omni_cli.planner import probes
from omni_cli.planner.located import Located
from omni_cli.prompts.shown import quoted
from omni_cli.request import GenerationRequest

_ADVICE = "relative paths start at the prompt file's folder"


class Inputs:
    """Checks of input files; the last 4096 answers are remembered, as many requests may share a picture."""

    def __init__(self) -> None:
        """With nothing looked at."""
        self._fault = lru_cache(maxsize=4096)(fault)

    def problems(self, located: Located, request: GenerationRequest) -> Iterator[Problem]:
        """What is wrong with the inputs of the resolved `request`, whose paths are absolute."""
        for file in input_files(request):
            message = self._fault(file)
            if message:
                keyword = f"{file.keyword}: " if file.keyword else ""
                yield located.problem(file.field, f"{keyword}{quoted(file.path, 200)} {message}", _ADVICE)


def fault(file: InputFile) -> str:
    """Why `file` cannot be an input, or "". Nothing is decoded but the first frame of a video."""
    if "://" in file.path:
        return "is a URL; download it first"
    if file.path.startswith("data:"):
        return "is a data URI; write it to a file"
    try:
        match file.kind:
            case InputKind.LORA:
                _lora(file.path)
            case InputKind.MASK if is_clip(file.path):
                probes.video(file.path)
            case InputKind.IMAGE | InputKind.MASK:
                probes.image(file.path)
            case InputKind.VIDEO:
                probes.video(file.path)
            case InputKind.TENSOR | InputKind.TENSORS:
                probes.tensors(file.path)
    except probes.Unusable as unusable:
        return str(unusable)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _lora(path: str) -> None:
    """A LoRA may be a folder, or the id of one on a hub, which only loading can look up."""
    if Path(path).is_absolute() and not Path(path).is_dir():
        probes.plain_file(path)
