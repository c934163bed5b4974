"""A clip as a folder: 000000.png, 000001.png, ... and audio.wav, where there is sound. The request is in the first frame."""

from pathlib import Path

from omni_cli.config import OutputConfig
from omni_cli.media import Kind
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import resolve_format
from omni_cli.writers.image import write_image
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.sound import encode_sound

DIGITS = 6
"""Of a frame's number; longer clips than that get longer names, which sort wrong and are still found."""


def write_folder(folder: Path, frames: Frames, options: OutputConfig, metadata: Metadata | None) -> None:
    """Write every frame of `frames` as a PNG of its own into the empty `folder`."""
    png = resolve_format("png")
    for number, pixels in enumerate(frames):
        one = Frames(pixels[None], Kind.IMAGE, frames.color)
        with (folder / f"{number:0{DIGITS}d}.png").open("xb") as file:
            write_image(file, one, png, options, metadata if number == 0 else None)
    if frames.audio is not None:
        encode_sound(frames.audio, folder / "audio.wav", "wav", "pcm_f32le", None)
