"""Check input files before anything runs: present, regular, readable, and of the kind they are used as."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from omni_cli.errors import Diagnostic, DiagnosticError
from omni_cli.inputs import InputFile, InputKind, input_files
from omni_cli.planner.checks import probes
from omni_cli.planner.resolve import SourcedRequest, field_problem
from omni_cli.request import GenerationRequest
from omni_cli.storage.file_types import is_clip
from omni_cli.text import quote

_REMEDY = "relative paths start at the prompt file's folder"
_FLAG_REMEDY = "relative paths of flags start at the working folder"


class InputCheck:
    """Checks of input files. Caches the last 4096 results, as many requests may share a picture."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._fault = lru_cache(maxsize=4096)(input_fault)

    def problems(self, row: SourcedRequest, request: GenerationRequest) -> Iterator[Diagnostic]:
        """Yield what is wrong with the inputs of `request`: that of `row`, resolved, with absolute paths."""
        for file in input_files(request):
            fault = self._fault(file)
            if fault is not None:
                keyword = f"{file.keyword}: " if file.keyword else ""
                cause = f"{keyword}{quote(file.path, 200)} {fault.cause}"
                is_of_row = getattr(row.request, file.field) is not None
                remedy = fault.remedy or (_REMEDY if is_of_row else _FLAG_REMEDY)
                yield field_problem(row, file.field, cause, remedy)


def input_fault(file: InputFile) -> Diagnostic | None:
    """Return why `file` cannot be an input, or None. Decodes nothing but the first frame of a video."""
    if file.path.startswith("file://"):
        return Diagnostic("is a URL", "give the path alone, without file://")
    if "://" in file.path:
        return Diagnostic("is a URL; download it first")
    if file.path.startswith("data:"):
        return Diagnostic("is a data URI; write it to a file")
    try:
        match file.kind:
            case InputKind.LORA:
                # A folder, or an id on a hub, which only loading can look up, is not probed.
                if Path(file.path).is_absolute() and not Path(file.path).is_dir():
                    probes.plain_file(file.path)
            case InputKind.MASK if is_clip(file.path):
                probes.video(file.path)
            case InputKind.IMAGE | InputKind.MASK:
                probes.image(file.path)
            case InputKind.VIDEO:
                probes.video(file.path)
            case InputKind.TENSOR | InputKind.TENSORS:
                probes.tensors(file.path)
    except DiagnosticError as error:
        return error.diagnostic
    except OSError as error:
        return Diagnostic(f"cannot be read: {error.strerror}")
    return None
