"""Arrays as files: npy, npz and safetensors, written through, frame by frame; nothing is gathered.

    npy           uint8 [H, W, C] of an image, [T, H, W, C] of a clip, float32 [C, S] of sound
    npz           frames, audio, sample_rate, fps, metadata: one member each, stored; `numpy.load` reads it without pickle
    safetensors   frames, audio; sample_rate, fps and metadata in the header. Latents: latents, audio_latents

safetensors is eight bytes of length, a JSON header and the bytes (github.com/huggingface/safetensors, "Format"). Its own library
takes whole tensors; a clip is written here as it is converted.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from omni_cli.media import Kind
from omni_cli.writers.finalize import Frames, Latent, Sample, Sound
from omni_cli.writers.metadata import Metadata

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPES = {"|u1": "U8", "<f4": "F32"}
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class _Array:
    """`parts` one behind the other are the C-contiguous array of `shape`; `descr` is numpy's word for its type."""

    descr: str
    shape: tuple[int, ...]
    parts: "Iterator[NDArray[Any]]"

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        size = {"|u1": 1, "<f4": 4}[self.descr]
        for axis in self.shape:
            size *= axis
        return size

    def write(self, file: Any) -> None:
        """All bytes, a part at a time."""
        for part in self.parts:
            file.write(part.data.cast("B") if part.flags.c_contiguous else part.tobytes())


def write_npy(file: BinaryIO, sample: Sample) -> None:
    """The frames, the sound or the latents of `sample`."""
    _write_npy(file, _main(sample))


def write_npz(file: BinaryIO, sample: Sample, fps: float | None, metadata: Metadata | None) -> None:
    """Every array of `sample`, and what belongs to it as arrays of no axis."""
    import numpy as np  # the heavy libraries of this room are loaded by those who encode

    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in _arrays(sample).items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                _write_npy(member, array)
        for name, value in {**_facts(sample, fps), **_told(metadata)}.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(value), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue())


def write_safetensors(file: BinaryIO, sample: Sample, fps: float | None, metadata: Metadata | None) -> None:
    """Every array of `sample` as a tensor, the floats first, so that each is aligned; facts and metadata as text."""
    arrays = dict(sorted(_arrays(sample).items(), key=lambda item: item[1].descr != "<f4"))
    header: dict[str, Any] = {
        "__metadata__": {k: str(v) for k, v in {**_facts(sample, fps), **_told(metadata)}.items()}
    }
    offset = 0
    for name, array in arrays.items():
        ends = [offset, offset + array.nbytes]
        header[name] = {"dtype": _TYPES[array.descr], "shape": array.shape, "data_offsets": ends}
        offset = ends[1]
    text = json.dumps(header, ensure_ascii=True).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        array.write(file)


def _write_npy(file: Any, array: _Array) -> None:
    import numpy as np  # see write_npz

    header = {"descr": array.descr, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    array.write(file)


def _main(sample: Sample) -> _Array:
    return next(iter(_arrays(sample).values()))


def _arrays(sample: Sample) -> dict[str, _Array]:
    """The arrays of `sample` by name, the one that it is about first."""
    match sample:
        case Frames():
            shape = sample.array.shape[1:] if sample.kind is Kind.IMAGE else sample.array.shape
            frames = {"frames": _Array("|u1", shape, iter(sample))}
            return frames if sample.audio is None else frames | {"audio": _floats(sample.audio.array)}
        case Sound():
            return {"audio": _floats(sample.array)}
        case Latent():
            latents = {"latents": _floats(sample.array)}
            return latents if sample.audio is None else latents | {"audio_latents": _floats(sample.audio)}


def _floats(array: "NDArray[Any]") -> _Array:
    return _Array("<f4", array.shape, iter([array]))


def _facts(sample: Sample, fps: float | None) -> Mapping[str, float | int]:
    """What numbers the arrays need to be played."""
    sound = sample if isinstance(sample, Sound) else sample.audio if isinstance(sample, Frames) else None
    rate = {} if sound is None else {"sample_rate": sound.sample_rate}
    return rate if fps is None else {"fps": fps, **rate}


def _told(metadata: Metadata | None) -> Mapping[str, str]:
    return {} if metadata is None else {"metadata": metadata.ascii_document}
