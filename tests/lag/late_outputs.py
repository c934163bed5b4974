"""Random outputs of the late device through the outbox, compared with what the CPU makes of the same floats.

    python -m tests.lag.late_outputs CHECK,CHECK [MUTANT]     prints the outputs that are wrong per check, as JSON

A mutant is a platform without one of the steps that make the bytes right; each check must find it.
"""

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from omni_cli.config import EngineConfig, VideoOutputTransport
from omni_cli.media import NORMALIZED, UNIT, ColorModel, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.out_of_tree import OutOfTreePlatform
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotViews
from omni_cli.worker.output.outbox import Outbox, OutgoingPreview
from omni_cli.worker.output.outgoing import OutgoingOutput, pinned_slot_pool
from omni_cli.worker.output.packer import OUT_OF_MEMORY_NOTE, Packer
from omni_cli.worker.streaming_decode import CallOutputs
from tests.factories import planned

LAG: Any = torch.lag  # type: ignore[attr-defined]
SHAPES = {
    Layout.BCHW: [1, 3, 48, 64],
    Layout.BCTHW: [1, 3, 5, 40, 48],
    Layout.BTCHW: [1, 4, 3, 40, 48],
    Layout.BHWC: [1, 32, 40, 3],
}
SOUND = MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE, sample_rate=8000)
FLOATS = VideoOutputTransport(enable_device_postprocess=False)


class NoWait(OutOfTreePlatform):
    """Does not wait for the event after which the output is there."""

    @contextmanager
    def side_stream(self, after: Any | None) -> Iterator[None]:
        with super().side_stream(None):
            yield


class NoSync(OutOfTreePlatform):
    """Does not wait for the side stream at the end."""

    @contextmanager
    def side_stream(self, after: Any | None) -> Iterator[None]:
        stream = self._stream()
        with self.module.stream(stream):
            stream.wait_event(after)
            yield

    def host_time(self, event: Any | None) -> float | None:
        return None


class NoActivate(OutOfTreePlatform):
    """Sets the device of the main thread alone."""

    def activate(self, device: str) -> None:
        if threading.current_thread() is threading.main_thread():
            super().activate(device)


PLATFORMS = {kind.__name__: kind for kind in (OutOfTreePlatform, NoWait, NoSync, NoActivate)}


class Parent:
    """The parent's end of an outbox: reads every message and releases the slots a moment later."""

    def __init__(self, platform: OutOfTreePlatform, device: str, transport: VideoOutputTransport, ring: int) -> None:
        self.channel, theirs = Channel.pair()
        self.pool = pinned_slot_pool(platform, ring)
        self.outbox = Outbox(Channel(theirs), self.pool, Packer(platform, transport), platform, limit=4 << 20)
        self.payloads: dict[str, bytes | None] = {}
        self.pieces: dict[str, list[bytes]] = {}
        self.errors: dict[str, str] = {}
        self.notes: dict[str, tuple[str, ...]] = {}
        self.early: list[str] = []
        self.untimed: list[str] = []
        self.arrived = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        platform.activate(device)

    def _read(self) -> None:
        views = SlotViews()
        while (received := self.channel.receive()) is not None:
            message, fds = m.decode_from_worker(received[0]), received[1]
            if isinstance(message, m.Preview):
                self._arrive(message.request_id, message.fault or message.pixels)
                continue
            assert isinstance(message, m.OutputReady | m.OutputPiece)
            id_, slot = message.async_output_id, message.slot
            if isinstance(message, m.OutputPiece):
                self.pieces.setdefault(id_, []).append(bytes(views.view(message.slot, fds)))
                self._release(message.slot.slot_id)
                continue
            if message.error is not None:
                self.errors[id_] = message.error.message
            if message.d2h.seconds < 0 or (
                message.forward is not None and message.d2h.start < message.forward.end - 1e-3
            ):
                self.early.append(id_)
            if message.forward is None:
                self.untimed.append(id_)
            self.notes[id_] = message.notes
            payload = b"".join(self.pieces.pop(id_, [])) if message.pieces else message.inline
            if slot is not None:
                payload = bytes(views.view(slot, fds))
                self._release(slot.slot_id)
            self._arrive(id_, payload)

    def _release(self, slot_id: int) -> None:
        threading.Timer(random.random() * 0.01, self.pool.release, (slot_id,)).start()

    def _arrive(self, id_: str, payload: Any) -> None:
        with self.arrived:
            self.payloads[id_] = payload
            self.arrived.notify_all()

    def found(self, count: int) -> dict[str, bytes | str | None]:
        """Wait for `count` outputs; return the payload or the error of each."""
        with self.arrived:
            self.arrived.wait_for(lambda: len(self.payloads) == count, 60)
            return {id_: self.errors.get(id_, payload) for id_, payload in self.payloads.items()}


def late(host: torch.Tensor, device: str) -> torch.Tensor:
    """Return `host` on the device by way of several kernels, exact, and right only when the last is done."""
    values = host.to(device, non_blocking=True)
    for _ in range(4):
        values = (values * 2.0) * 0.5
    return values


def medias(dice: random.Random, count: int) -> Iterator[tuple[str, Media]]:
    """Yield outputs of random layouts, sizes, dtypes and ranges, some with sound, NaN or floats that must stay."""
    generator = torch.Generator().manual_seed(dice.randrange(1 << 30))
    for number in range(count):
        layout = dice.choice(list(SHAPES))
        shape = [dice.choice([1, 2, 3]), *SHAPES[layout][1:]]
        if dice.random() < 0.3:  # more than a message carries inline
            for axis in "HW":
                shape[str(layout).index(axis)] *= 8
        kind = Kind.VIDEO if "T" in str(layout) else Kind.IMAGE
        data = (torch.rand(shape, generator=generator) * 2.4 - 1.2).to(
            dice.choice([torch.float32, torch.bfloat16, torch.float16])
        )
        if dice.random() < 0.1:
            data.view(-1)[dice.randrange(data.numel())] = float("nan")
        pending = ("sixteen bits",) if dice.random() < 0.2 else ()
        spec = MediaSpec(kind, layout, Encoding.FLOAT, dice.choice([NORMALIZED, UNIT]), pending=pending)
        sound = torch.rand((shape[0], 2, 4000), generator=generator) * 2 - 1
        audio = Media(SOUND, sound) if kind is Kind.VIDEO and dice.random() < 0.3 else None
        yield f"b/{number}", Media(spec, data, audio=audio)


def on_cpu(media: Media, transport: VideoOutputTransport) -> bytes | str:
    """Return the payload that the CPU makes, or the message of its error."""
    buffer = bytearray()

    def allocate(nbytes: int) -> bytearray:
        buffer[:] = bytes(nbytes)
        return buffer

    try:
        packed = Packer(CpuPlatform(), transport).pack(media, None, allocate)
    except Exception as error:
        return str(error)
    return bytes(buffer[: packed.nbytes])


def stream(parent: Parent, platform: OutOfTreePlatform, id_: str, media: Media, device: str, threaded: bool) -> None:
    """Send a video [B, C, T, H, W] of one sample in pieces of one frame, as a decoder makes them."""
    engine, frames = EngineConfig(async_output=threaded), media.data.shape[2]
    request = planned(num_frames=99, height=999, width=999, format="mp4")  # one that is large enough for pieces
    outputs = CallOutputs(parent.outbox, platform, engine, [request], [id_])
    assert outputs.on_frames is not None
    for number in range(frames):
        piece = late(media.data[:, :, number : number + 1].contiguous(), device)
        outputs.on_frames(0, Media(media.spec, piece, offset=(0, number)))
        del piece
        torch.full((1 << 16,), 0.3, device=device)  # what the next frame would write into freed memory
    end = [outputs.outgoing(0, replace(media, streamed=True), platform.record_device_event())]
    (parent.outbox.put if threaded else parent.outbox.deliver)(end)


def show(parent: Parent, platform: OutOfTreePlatform, id_: str, device: str) -> bytes:
    """Send a preview and return its bytes."""
    pixels = torch.randint(0, 64, (12, 16, 3), dtype=torch.uint8)
    made = pixels.to(device, non_blocking=True)
    for _ in range(3):
        made = made * 2 // 2 + 1
    message = m.Preview(rpc_id=1, request_id=id_, step=1, total=2)
    parent.outbox.show(OutgoingPreview(message, made, platform.record_device_event()))
    return (pixels + 3).numpy().tobytes()


def wrong_outputs(
    platform: OutOfTreePlatform,
    count: int = 25,
    device: str = "lag:0",
    transport: VideoOutputTransport = VideoOutputTransport(),  # noqa: B008 - frozen
    ring: int = 8 << 20,
    threaded: bool = True,
    seed: int = 1,
    timed: bool = False,
) -> list[str]:
    """Send `count` random outputs; return what is wrong. `timed`: each must have the time of its forward."""
    parent, expected = Parent(platform, device, transport, ring), dict[str, bytes | str]()
    dice = random.Random(seed)
    if threaded:
        parent.outbox.start(device)
    for id_, media in medias(random.Random(seed), count):
        expected[id_] = on_cpu(media, transport)
        if dice.random() < 0.3:
            expected[f"preview of {id_}"] = show(parent, platform, f"preview of {id_}", device)
        is_video = media.spec.layout is Layout.BCTHW and media.data.shape[0] == 1 and media.audio is None
        if is_video and not media.spec.pending and transport is not FLOATS and isinstance(expected[id_], bytes):
            stream(parent, platform, id_, media, device, threaded)
            continue
        begun = platform.record_device_event()
        with torch.inference_mode():
            audio = None if media.audio is None else replace(media.audio, data=late(media.audio.data, device))
            made = replace(media, data=late(media.data, device), audio=audio)
        outputs = [OutgoingOutput(id_, made, begun, platform.record_device_event())]
        del made, audio
        (parent.outbox.put if threaded else parent.outbox.deliver)(outputs)
        del outputs
        torch.full((1 << 18,), 0.3, device=device)  # what the next forward would write into freed memory
    drained, found = parent.outbox.close(60), parent.found(len(expected))
    wrong = [id_ for id_, value in expected.items() if found.get(id_) != value]
    wrong += [f"{id_} has an early or negative interval" for id_ in parent.early]
    wrong += [f"{id_} has no time of its forward" for id_ in parent.untimed if timed]
    return wrong + ["not drained"] * (not drained)


def timings(platform: OutOfTreePlatform) -> list[str]:
    """All kinds of runs, with side streams as slow as the forward, faster, and slower."""
    wrong = []
    runs: Sequence[dict[str, Any]] = (
        {},
        {"threaded": False},
        {"device": "lag:1"},
        {"ring": 3 << 20},
        {"transport": FLOATS},
    )
    for delay, main in ((200, -1), (50, 1000), (500, 0)):
        LAG.set_delay(delay)
        for index in range(2):
            LAG.set_stream_delay(index, 0, main)
        for seed, run in enumerate(runs):
            wrong += [
                f"{one} of {run}, {delay}, {main}" for one in wrong_outputs(platform, 8, seed=seed, timed=True, **run)
            ]
    return wrong


def slow_forward(platform: OutOfTreePlatform) -> list[str]:
    """Forwards that are slower than the side stream: an output that is read too soon is wrong."""
    LAG.set_delay(100)
    LAG.set_stream_delay(0, 0, 3000)
    return wrong_outputs(platform)


def slow_side_stream(platform: OutOfTreePlatform) -> list[str]:
    """A side stream that is slower than the forward: a payload that is sent too soon is wrong."""
    LAG.set_delay(1000)
    LAG.set_stream_delay(0, 0, 0)
    return wrong_outputs(platform)


def slow_pieces(platform: OutOfTreePlatform) -> list[str]:
    """Frames that leave while a slow decoder makes the next: one that is read too soon is wrong."""
    LAG.set_delay(100)
    LAG.set_stream_delay(0, 0, 3000)
    return wrong_pieces(platform)


def pieces_on_a_slow_side_stream(platform: OutOfTreePlatform) -> list[str]:
    """Frames whose conversion takes longer than the decoder: one that is sent too soon is wrong."""
    LAG.set_delay(1000)
    LAG.set_stream_delay(0, 0, 0)
    return wrong_pieces(platform)


def wrong_pieces(platform: OutOfTreePlatform) -> list[str]:
    """Send two videos in pieces alone; return what is wrong."""
    transport = VideoOutputTransport()
    parent, expected = Parent(platform, "lag:0", transport, 1 << 20), dict[str, bytes | str]()
    parent.outbox.start("lag:0")
    for number in range(2):
        data = torch.rand((1, 3, 5, 40, 48)) * 2 - 1
        media = Media(MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED), data)
        expected[f"b/{number}"] = on_cpu(media, transport)
        stream(parent, platform, f"b/{number}", media, "lag:0", threaded=True)
    found = parent.found(len(expected))
    return [id_ for id_, value in expected.items() if found.get(id_) != value]


def previews(platform: OutOfTreePlatform) -> list[str]:
    """Previews of a forward that is slow: one that is read too soon is wrong."""
    LAG.set_delay(100)
    LAG.set_stream_delay(0, 0, 3000)
    parent = Parent(platform, "lag:0", VideoOutputTransport(), 1 << 20)
    parent.outbox.start("lag:0")
    expected = {f"p/{number}": show(parent, platform, f"p/{number}", "lag:0") for number in range(4)}
    found = parent.found(len(expected))
    return [id_ for id_, value in expected.items() if found.get(id_) != value]


def second_device(platform: OutOfTreePlatform) -> list[str]:
    """Outputs on a device that is not the process's first."""
    return wrong_outputs(platform, 10, device="lag:1")


def refused_registration(platform: OutOfTreePlatform) -> list[str]:
    """Host memory that cannot be pinned: told once, never tried again, and no kernel fails for it."""
    tried: list[int] = []
    register = LAG.host_register
    LAG.host_register = lambda address, nbytes: tried.append(nbytes) or register(address, nbytes)
    wrong = wrong_outputs(platform, 15) + wrong_outputs(platform, 5, threaded=False)
    platform.unregister_host(1 << 20)  # not registered, which leaves an error for the next kernel, too
    torch.ones(4, device="lag:0").add_(1).cpu()
    return wrong + ([] if len(tried) == 2 else [f"registered {len(tried)} times by two pools"])


def no_memory(platform: OutOfTreePlatform) -> list[str]:
    """A device without memory for the conversion: the host converts, to the same bytes."""
    wrong = []
    for transport in (VideoOutputTransport(), FLOATS):
        for id_, media in medias(random.Random(3), 12):
            parent = Parent(platform, "lag:0", transport, 8 << 20)
            made = replace(media, data=late(media.data, "lag:0"), audio=None)
            done = platform.record_device_event()
            platform.synchronize()
            LAG.set_memory_limit(LAG.memory_allocated() + 1)
            parent.outbox.deliver([OutgoingOutput(id_, made, None, done)])
            LAG.set_memory_limit(0)
            expected = on_cpu(replace(media, audio=None), transport)
            if parent.found(1) != {id_: expected}:
                wrong.append(f"{id_}: {parent.errors.get(id_)}")
            elif isinstance(expected, bytes) and OUT_OF_MEMORY_NOTE not in parent.notes[id_]:
                wrong.append(f"{id_} was converted on the device")
            del made
    return wrong


CHECKS: dict[str, Callable[[OutOfTreePlatform], list[str]]] = {
    check.__name__: check
    for check in (
        *(timings, slow_forward, slow_side_stream, second_device, refused_registration, no_memory),
        *(slow_pieces, pieces_on_a_slow_side_stream, previews),
    )
}


def findings(names: str, platform: OutOfTreePlatform) -> dict[str, list[str]]:
    """Return what each check of a comma-separated list finds; an exception is a finding."""
    found = {}
    for name in names.split(","):
        try:
            found[name] = CHECKS[name](platform)
        except Exception as error:
            found[name] = [f"{type(error).__name__}: {error}"]
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = PLATFORMS[sys.argv[2] if len(sys.argv) > 2 else "OutOfTreePlatform"]()
    print(json.dumps(findings(sys.argv[1], chosen)))  # noqa: T201
    sys.stdout.flush()
    os._exit(0)  # a stream's thread may still wait for a kernel
