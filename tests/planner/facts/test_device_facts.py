"""The device of `--device auto`, told by the installed files."""

import importlib
import sys
from pathlib import Path

import pytest

from omni_cli.planner.facts.device_facts import DeviceFacts, device_environment, device_facts

CPU = "cuda: Optional[str] = None\nhip: Optional[str] = None\nxpu: Optional[str] = None\n"


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The version.py of an installed torch that is built for the CPU, before anything has imported it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('torch was imported')")
    version = tmp_path / "torch" / "version.py"
    version.write_text(f"from typing import Optional\n__version__ = '2.13.0+cpu'\n{CPU}")
    importlib.invalidate_caches()
    return version


def test_a_build_for_the_cpu_has_only_the_cpu(torch: Path) -> None:
    assert device_facts("auto", "auto") == DeviceFacts("cpu", "float32")
    assert device_facts("auto", "bf16") == DeviceFacts("cpu", "bfloat16")
    assert device_facts("cuda", "auto") is None
    assert device_facts("auto", "int8") is None


@pytest.mark.parametrize(
    "text",
    [
        CPU.replace("cuda: Optional[str] = None", "cuda: Optional[str] = '13.0'"),
        CPU.replace("hip: Optional[str] = None", "hip = '7.0'"),
        CPU.replace("xpu: Optional[str] = None", "xpu = '20250101'"),
        "__version__ = '3.0'",
        "cuda = None\nhip = compute()",
        "no python",
    ],
)
def test_any_other_build_is_asked(torch: Path, text: str) -> None:
    torch.write_text(text)
    assert device_facts("auto", "auto") is None
    assert device_facts("cpu", "auto") == DeviceFacts("cpu", "float32")


@pytest.mark.parametrize("name", ["torch_npu/__init__.py", "some-1.dist-info/entry_points.txt"])
def test_a_package_with_a_device_of_its_own_is_asked(torch: Path, name: str) -> None:
    path = torch.parent.parent / name
    path.parent.mkdir()
    path.write_text("[torch.backends]\nsome = some:load\n" if name.endswith(".txt") else "")
    importlib.invalidate_caches()
    assert device_facts("auto", "auto") is None


def test_a_mac_is_asked(torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert device_facts("auto", "auto") is None


def test_the_environment_tells_machines_and_jobs_apart() -> None:
    assert device_environment({"HOME": "/a", "PATH": "/b"}) == device_environment({})
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
        assert device_environment({name: "0"}) != device_environment({name: "1"}), name
