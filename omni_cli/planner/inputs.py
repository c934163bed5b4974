"""Input files, looked at before anything runs: there, plain, readable, and pictures where pictures are meant."""

import os
import stat
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from omni_cli.errors import Problem
from omni_cli.planner.located import Located
from omni_cli.prompts import InputFile, input_files
from omni_cli.prompts.shown import escaped, quoted
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
                yield located.problem(file.field, f"{quoted(file.path, 200)} {message}", _ADVICE)


def fault(file: InputFile) -> str:
    """Why `file` cannot be an input, or "". Pictures are opened up to their header, not decoded."""
    if "://" in file.path:
        return "is a URL; download it first"
    path = Path(file.path)
    if file.field == "lora":
        return _lora_fault(path)
    return _file_fault(path) or ("" if file.field == "video" else _image_fault(path))


def _lora_fault(path: Path) -> str:
    """A LoRA may be a folder, or the id of one on a hub, which only loading can look up."""
    return "" if not path.is_absolute() or path.is_dir() else _file_fault(path)


def _file_fault(path: Path) -> str:
    try:
        # O_NONBLOCK: a pipe must not be waited for. A device is refused by what it is, not by what it gives.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ValueError as error:
        return f"cannot be a path: {error}"
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(found.st_mode):
        return "is a folder"
    if not stat.S_ISREG(found.st_mode):
        return "is a device, pipe or socket, not a file"
    return "" if found.st_size else "is empty"


def _image_fault(path: Path) -> str:
    from PIL import Image, UnidentifiedImageError  # costs 0.1 s; most prompt files name no pictures

    try:
        with warnings.catch_warnings():
            # A big picture is the user's business until it is past what Pillow calls an attack, which is an error.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            Image.open(path).close()
    except UnidentifiedImageError:
        return "is not an image that Pillow can read"
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return f"cannot be read as an image: {escaped(str(error))[:200]}"
    return ""
