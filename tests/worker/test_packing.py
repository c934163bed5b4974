"""An output is written once, as levels or as floats, and lack of device memory is not its end."""

import logging
from dataclasses import replace
from typing import Any

import pytest
import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import MediaContractError, NonFiniteOutput
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.cpu import CpuPlatform
from omni_cli.worker.packing import OUT_OF_MEMORY_NOTE, TRACK_ALIGNMENT, Packer
from omni_cli.worker.validity import Validity
from omni_cli.writers import Frames, samples

CLIP = MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED)


def clip() -> Media:
    """One sample of two frames, 2x2: black, then white."""
    data = torch.ones(1, 3, 2, 2, 2)
    data[:, :, 0] = -1
    return Media(CLIP, data)


class Memory:
    """A place to write to, which can run out."""

    def __init__(self, *failures: Exception) -> None:
        self.asked: list[int] = []
        self.buffer = bytearray()
        self._failures = list(failures)

    def __call__(self, nbytes: int) -> Any:
        self.asked.append(nbytes)
        if self._failures:
            raise self._failures.pop(0)
        self.buffer = bytearray(nbytes)
        return self.buffer


class Device(CpuPlatform):
    """Counts how often its cache was emptied."""

    emptied = 0

    def empty_cache(self) -> None:
        self.emptied += 1


def test_levels_are_written_into_the_buffer_that_was_asked_for() -> None:
    memory = Memory()
    packed = Packer(CpuPlatform(), VideoOutputTransport()).pack(clip(), None, memory)
    assert memory.asked == [24]
    assert bytes(memory.buffer) == bytes(12) + b"\xff" * 12
    assert (packed.header.dtype, packed.header.shape, packed.nbytes, packed.notes) == ("uint8", (1, 2, 2, 2, 3), 24, ())


def test_floats_travel_as_they_are_where_policy_says_so() -> None:
    memory = Memory()
    policy = VideoOutputTransport(enable_device_postprocess=False)
    packed = Packer(CpuPlatform(), policy).pack(clip(), None, memory)
    assert (packed.header.dtype, packed.header.value_range, packed.nbytes) == ("float32", NORMALIZED, 96)
    values = torch.frombuffer(memory.buffer, dtype=torch.float32).view(packed.header.shape)
    assert values.unique().tolist() == [-1.0, 1.0]
    assert values[0, 0].max() == -1


def test_sound_is_never_quantized() -> None:
    memory = Memory()
    spec = MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, clip().spec.color.NONE, sample_rate=8000)
    packed = Packer(CpuPlatform(), VideoOutputTransport()).pack(Media(spec, torch.zeros(1, 2, 50)), None, memory)
    assert (packed.header.dtype, packed.header.shape) == ("float32", (1, 2, 50))
    assert packed.header.sample_rate == 8000


def test_sound_travels_behind_the_frames_of_its_video() -> None:
    memory = Memory()
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
    (frame,) = samples(packed.header, bytes(memory.buffer)[: packed.nbytes])
    assert isinstance(frame, Frames)
    assert frame.audio is not None
    assert torch.equal(torch.from_numpy(frame.audio.array.copy()), sound[0])


def test_no_device_memory_for_the_conversion_means_floats_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    device = Device()
    packer = Packer(device, VideoOutputTransport())
    with caplog.at_level(logging.WARNING, "omni_gen"):
        for _ in range(2):
            memory = Memory(torch.OutOfMemoryError("CUDA out of memory"))
            packed = packer.pack(clip(), None, memory)
            assert (packed.header.dtype, packed.notes) == ("float32", (OUT_OF_MEMORY_NOTE,))
            assert memory.asked == [24, 96]
    assert device.emptied == 2
    assert caplog.text.count(OUT_OF_MEMORY_NOTE) == 1
    assert packer.pack(clip(), None, Memory()).header.dtype == "uint8", "the next one is tried again"


def test_out_of_memory_for_the_floats_as_well_is_an_error() -> None:
    failures = (torch.OutOfMemoryError("one"), torch.OutOfMemoryError("two"))
    with pytest.raises(torch.OutOfMemoryError, match="two"):
        Packer(Device(), VideoOutputTransport()).pack(clip(), None, Memory(*failures))


def test_any_other_error_is_no_reason_to_fall_back() -> None:
    memory = Memory(RuntimeError("illegal memory access"))
    with pytest.raises(RuntimeError, match="illegal"):
        Packer(CpuPlatform(), VideoOutputTransport()).pack(clip(), None, memory)
    assert memory.asked == [24]


def test_malformed_media_is_refused_before_memory_is_asked_for() -> None:
    memory = Memory()
    with pytest.raises(MediaContractError, match="axes"):
        Packer(CpuPlatform(), VideoOutputTransport()).pack(Media(CLIP, torch.ones(3, 2, 2)), None, memory)
    assert memory.asked == []


@pytest.mark.parametrize("policy", [VideoOutputTransport(), VideoOutputTransport(enable_device_postprocess=False)])
def test_what_the_forward_and_the_packing_have_to_say_travels_with_the_output(policy: VideoOutputTransport) -> None:
    broken = clip()
    broken.data[0, 0, 0, 0, 0] = float("nan")
    media = Media(CLIP, broken.data, notes=("halved",))
    with pytest.raises(NonFiniteOutput, match="1 NaN"):
        Packer(CpuPlatform(), policy).pack(media, None, Memory())
    packed = Packer(CpuPlatform(), policy, Validity(keep_invalid=True)).pack(media, None, Memory())
    assert packed.notes[0] == "halved"
    assert "not finite: 1 NaN" in packed.notes[1]
