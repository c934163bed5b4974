"""What a second writing of the same frames must repeat: the settings of lossy encoders, and the libraries behind them."""

from functools import cache
from importlib.metadata import version
from typing import Any

import omni_cli
from omni_cli.config import OutputConfig

_IMAGES = {"jpeg": ("quality",), "webp": ("quality",), "avif": ("quality",)}
_VIDEO = ("codec", "crf", "encoder", "encoder_preset", "pix_fmt")
_VIDEOS = ("mp4", "webm", "mov", "mkv")


def encoding_of(form: str, output: OutputConfig) -> dict[str, Any]:
    """The settings in `output` that change the decoded pixels of the format `form`, by their names there; empty if none does."""
    names = _VIDEO if form in _VIDEOS else _IMAGES.get(form, ())
    return {name: getattr(output, name) for name in names}


@cache
def versions() -> dict[str, str]:
    """Versions of this package and of the libraries that encode."""
    return {"omni-gen": omni_cli.__version__, "pillow": version("pillow"), "av": version("av")}
