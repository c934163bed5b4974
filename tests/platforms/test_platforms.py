"""Platforms: device names, events and streams, pinned memory, out-of-memory errors."""

import mmap
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from omni_cli import platforms
from omni_cli.errors import UsageError
from omni_cli.platforms.base import Platform
from omni_cli.platforms.cuda import CudaPlatform, RocmPlatform
from omni_cli.platforms.streamless import CpuPlatform, MpsPlatform
from omni_cli.platforms.streams import MusaPlatform, NpuPlatform, StreamPlatform, XpuPlatform

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def test_the_base_platform_does_nothing() -> None:
    base = Platform()
    assert base.record_device_event() is None
    assert base.host_time(None) is None
    assert base.register_host(0, 1) is False
    assert base.memory_in_use() == 0
    with base.side_stream(None):
        base.keep_alive(torch.zeros(1))
    base.synchronize()
    assert not base.is_available()


def test_every_accelerator_is_preferred_to_the_cpu() -> None:
    names = [platform().name for platform in platforms.PLATFORMS]
    assert names == ["cuda", "rocm", "xpu", "npu", "musa", "privateuseone", "mps", "cpu"]
    assert platforms.available()[-1].name == "cpu"


@pytest.mark.parametrize("kind", [NpuPlatform, MusaPlatform, XpuPlatform, MpsPlatform])
def test_a_backend_that_is_not_installed_is_not_available(kind: type[Platform]) -> None:
    assert kind().device_count() in (0, 1)
    if not hasattr(torch, kind.torch_type) or kind is MpsPlatform:
        assert kind().is_available() is (kind is MpsPlatform and torch.backends.mps.is_available())


def test_the_cpu_computes_in_float32_and_recognises_its_out_of_memory_error() -> None:
    platform = CpuPlatform()
    assert platform.default_dtype() is torch.float32
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 62, dtype=torch.uint8)
    assert platform.is_out_of_memory(caught.value)
    assert not platform.is_out_of_memory(RuntimeError("shapes differ"))


def test_an_unknown_device_is_an_error_that_lists_the_available_ones() -> None:
    assert platforms.resolve("cpu")[1] == "cpu"
    with pytest.raises(UsageError, match=r"--device tpu: no such device here; there are: .*cpu \(1\)"):
        platforms.resolve("tpu")
    with pytest.raises(UsageError, match="cpu:3"):
        platforms.resolve("cpu:3")


class FakeEvent:
    """An event whose time is the length of the shared log when it was recorded."""

    def __init__(self, log: list[Any], enable_timing: bool) -> None:
        self.log, self.timing, self.at = log, enable_timing, 0.0

    def record(self, stream: Any = None) -> None:
        self.log.append(("record", stream))
        self.at = float(len(self.log))

    def synchronize(self) -> None:
        self.log.append("event synchronized")

    def elapsed_time(self, later: "FakeEvent") -> float:
        return (later.at - self.at) * 1000


class FakeStream:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def wait_event(self, event: Any) -> None:
        self.log.append(("wait", event))

    def synchronize(self) -> None:
        self.log.append("stream synchronized")


class FakeModule:
    """A fake `torch.cuda` that logs calls."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def Event(self, enable_timing: bool = False) -> FakeEvent:  # noqa: N802 - torch's name
        return FakeEvent(self.log, enable_timing)

    def Stream(self) -> FakeStream:  # noqa: N802 - torch's name
        return FakeStream(self.log)

    def stream(self, stream: FakeStream) -> AbstractContextManager[None]:
        @contextmanager
        def entered() -> Iterator[None]:
            self.log.append("enter")
            yield
            self.log.append("leave")

        return entered()

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 2

    def synchronize(self) -> None:
        self.log.append("synchronized")

    def set_device(self, device: Any) -> None:
        self.log.append(("device", str(device)))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeModule:
    module = FakeModule()
    monkeypatch.setattr(torch, "npu", module, raising=False)
    return module


def test_the_side_stream_waits_for_the_event_and_is_finished_when_the_context_exits(fake: FakeModule) -> None:
    platform = NpuPlatform()
    event = platform.record_device_event()
    with platform.side_stream(event):
        fake.log.append("copy")
    assert fake.log == [("record", None), "enter", ("wait", event), "copy", "leave", "stream synchronized"]


def test_event_times_are_converted_to_the_host_clock(fake: FakeModule) -> None:
    platform = NpuPlatform()
    platform.activate("npu:1")
    assert ("device", "1") in fake.log
    begun, done = platform.record_device_event(), platform.record_device_event()
    start, end = platform.host_time(begun), platform.host_time(done)
    assert start is not None
    assert end is not None
    assert end - start == pytest.approx(1.0)
    assert platform.host_time(None) is None


def test_workers_are_spread_over_the_devices(fake: FakeModule) -> None:
    assert [platforms.resolve("npu", worker)[1] for worker in range(3)] == ["npu:0", "npu:1", "npu:0"]
    assert platforms.resolve("npu:1", 0)[1] == "npu:1"
    with pytest.raises(UsageError, match="npu:2"):
        platforms.resolve("npu:2")


def test_a_thread_keeps_its_side_stream(fake: FakeModule) -> None:
    platform = StreamPlatform()
    platform.module_name = "npu"
    assert platform._stream() is platform._stream()


STREAM_PLATFORMS = [CudaPlatform, RocmPlatform, XpuPlatform, NpuPlatform, MusaPlatform]


@pytest.mark.parametrize("kind", STREAM_PLATFORMS)
def test_events_are_recorded_and_waited_for_on_every_platform_with_streams(
    kind: type[StreamPlatform], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = FakeModule()
    monkeypatch.setattr(torch, kind.module_name, module, raising=False)
    platform = kind()
    event = platform.record_device_event()
    platform.wait_for(event)
    platform.wait_for(None)
    assert isinstance(event, FakeEvent)
    assert event.timing
    assert module.log == [("record", None), "event synchronized", "synchronized"]


@pytest.mark.parametrize("platform", [Platform(), CpuPlatform(), MpsPlatform()], ids=lambda p: str(p.name))
def test_a_platform_without_streams_records_no_event_and_waits_for_all_work(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    assert platform.record_device_event() is None
    assert platform.host_time(None) is None
    platform.wait_for(None)
    assert waited == (["mps"] if platform.name == "mps" else [])


@pytest.mark.parametrize(
    ("platform", "message"),
    [
        (NpuPlatform(), "NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)"),
        (MusaPlatform(), "MUSA out of memory. Tried to allocate 2.00 GiB"),
        (XpuPlatform(), "XPU out of memory. Tried to allocate 2.00 GiB"),
        (MpsPlatform(), "MPS backend out of memory (MPS allocated: 8.00 GB)"),
        (CudaPlatform(), "CUDA error: out of memory"),
        (CudaPlatform(), "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        (CudaPlatform(), "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        (RocmPlatform(), "HIP error: hipErrorOutOfMemory"),
        (XpuPlatform(), "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
        (CpuPlatform(), "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_out_of_memory_errors_that_are_plain_runtime_errors_are_recognised(platform: Platform, message: str) -> None:
    assert platform.is_out_of_memory(RuntimeError(message))
    assert platform.is_out_of_memory(torch.OutOfMemoryError("any"))
    assert not platform.is_out_of_memory(RuntimeError("shapes differ"))
    assert not platform.is_out_of_memory(ValueError(message))


def test_an_installed_backend_outside_of_torch_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_musa.py").write_text(
        "import torch\nfrom tests.platforms.test_platforms import FakeModule\ntorch.musa = FakeModule()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(torch, "musa", None, raising=False)
    monkeypatch.delattr(torch, "musa")
    try:
        assert MusaPlatform().device_count() == 2
        assert platforms.resolve("musa", 1)[1] == "musa:1"
    finally:
        sys.modules.pop("torch_musa", None)


def test_a_backend_that_cannot_be_imported_is_unavailable_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "torch_npu.py").write_text("raise ImportError('libascend_hal.so: cannot open shared object file')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert not NpuPlatform().is_available()
    assert "torch_npu is installed and cannot be imported: libascend_hal.so" in caplog.text


@cuda
def test_a_copy_to_pinned_memory_on_the_side_stream_arrives() -> None:
    platform = CudaPlatform()
    platform.activate("cuda:0")
    memory = mmap.mmap(-1, 1 << 20)
    host = torch.frombuffer(memory, dtype=torch.uint8)
    assert platform.register_host(host.data_ptr(), len(memory))
    source = torch.arange(1 << 20, device="cuda").to(torch.uint8)
    done = platform.record_device_event()
    with platform.side_stream(done):
        platform.keep_alive(source)
        host.copy_(source, non_blocking=True)
    assert torch.equal(host, source.cpu())
    platform.unregister_host(host.data_ptr())
    assert platform.host_time(done) is not None
