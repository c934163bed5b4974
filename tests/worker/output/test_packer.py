"""An output is packed once, as uint8 or float32; out of device memory falls back to float32."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import MediaContractError, NonFiniteOutput
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.worker.output.output_check import OutputPolicy
from omni_cli.worker.output.packer import TRACK_ALIGNMENT, Packer
from omni_cli.writers import Frames, split_samples

CLIP = MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED)


def clip() -> Media:
    """Return one sample of two frames of 2x2 pixels: black, then white."""
    data = torch.ones(1, 3, 2, 2, 2)
    data[:, :, 0] = -1
    return Media(CLIP, data)


class Allocator:
    """Allocates the buffer to pack into; raises `failures` first."""

    def __init__(self, *failures: Exception) -> None:
        self.sizes: list[int] = []
        self.buffer = bytearray()
        self._failures = list(failures)

    def __call__(self, nbytes: int) -> Any:
        self.sizes.append(nbytes)
        if self._failures:
            raise self._failures.pop(0)
        self.buffer = bytearray(nbytes)
        return self.buffer


def test_uint8_levels_are_written_into_the_allocated_buffer() -> None:
    memory = Allocator()
    packed = Packer(CpuPlatform(), VideoOutputTransport()).pack(clip(), None, memory)
    assert memory.sizes == [24]
    assert bytes(memory.buffer) == bytes(12) + b"\xff" * 12
    assert (packed.header.dtype, packed.header.shape, packed.nbytes, packed.notes) == ("uint8", (1, 2, 2, 2, 3), 24, ())


def test_floats_are_packed_unchanged_without_device_postprocess() -> None:
    memory = Allocator()
    policy = VideoOutputTransport(enable_device_postprocess=False)
    packed = Packer(CpuPlatform(), policy).pack(clip(), None, memory)
    assert (packed.header.dtype, packed.header.value_range, packed.nbytes) == ("float32", NORMALIZED, 96)
    values = torch.frombuffer(memory.buffer, dtype=torch.float32).view(packed.header.shape)
    assert values.unique().tolist() == [-1.0, 1.0]
    assert values[0, 0].max() == -1


def test_sound_is_never_quantized() -> None:
    memory = Allocator()
    spec = MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, clip().spec.color.NONE, sample_rate=8000)
    packed = Packer(CpuPlatform(), VideoOutputTransport()).pack(Media(spec, torch.zeros(1, 2, 50)), None, memory)
    assert (packed.header.dtype, packed.header.shape) == ("float32", (1, 2, 50))
    assert packed.header.sample_rate == 8000


def test_the_audio_track_is_packed_behind_the_frames() -> None:
    memory = Allocator()
    spec = MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, clip().spec.color.NONE, sample_rate=8000)
    sound = torch.linspace(-1, 1, 100).view(1, 2, 50)
    packed = Packer(CpuPlatform(), VideoOutputTransport()).pack(replace(clip(), audio=Media(spec, sound)), None, memory)
    track = packed.header.audio
    assert track is not None
    frames = torch.Size(packed.header.shape).numel()
    assert (track.shape, track.sample_rate) == ((1, 2, 50), 8000)
    assert frames <= track.offset < frames + TRACK_ALIGNMENT
    assert track.offset % TRACK_ALIGNMENT == 0
    assert packed.nbytes == track.offset + 400
    (frame,) = split_samples(packed.header, bytes(memory.buffer)[: packed.nbytes])
    assert isinstance(frame, Frames)
    assert frame.audio is not None
    assert torch.equal(torch.from_numpy(frame.audio.array.copy()), sound[0])


def test_an_error_of_the_conversion_is_raised() -> None:
    memory = Allocator(RuntimeError("illegal memory access"))
    with pytest.raises(RuntimeError, match="illegal"):
        Packer(CpuPlatform(), VideoOutputTransport()).pack(clip(), None, memory)
    assert memory.sizes == [24]


def test_malformed_media_raises_before_a_buffer_is_allocated() -> None:
    memory = Allocator()
    with pytest.raises(MediaContractError, match="axes"):
        Packer(CpuPlatform(), VideoOutputTransport()).pack(Media(CLIP, torch.ones(3, 2, 2)), None, memory)
    assert memory.sizes == []


@pytest.mark.parametrize("policy", [VideoOutputTransport(), VideoOutputTransport(enable_device_postprocess=False)])
def test_notes_of_the_forward_and_of_the_packing_are_packed(policy: VideoOutputTransport) -> None:
    broken = clip()
    broken.data[0, 0, 0, 0, 0] = float("nan")
    media = Media(CLIP, broken.data, notes=("halved",))
    with pytest.raises(NonFiniteOutput, match="1 NaN"):
        Packer(CpuPlatform(), policy).pack(media, None, Allocator())
    packed = Packer(CpuPlatform(), policy, OutputPolicy(keep_invalid=True)).pack(media, None, Allocator())
    assert packed.notes[0] == "halved"
    assert "not finite: 1 NaN" in packed.notes[1]
