"""Code from outside of diffusers is not run unless the user trusts it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from omni_cli.errors import ModelLoadError
from tests.worker.loader.conftest import Tiny, edit_index, load_quietly


def test_code_in_a_model_folder_is_not_run_unless_it_is_trusted(
    copy_of: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffusers.utils.dynamic_modules_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("sys.path", [*sys.path])
    folder, trace = copy_of("ddim"), tmp_path / "ran"
    (folder / "unet" / "mine.py").write_text(
        f"import pathlib; pathlib.Path({str(trace)!r}).touch()\nfrom diffusers import UNet2DModel as Mine\n"
    )
    edit_index(folder, unet=["mine", "Mine"])
    with pytest.raises(ModelLoadError, match=r"unet \(mine\).*--trust-remote-code"):
        load_quietly(str(folder))
    assert not trace.exists()
    load_quietly(str(folder), trust_remote_code=True)
    assert trace.exists()


@pytest.mark.parametrize("change", [{"_class_name": ["mine", "MinePipeline"]}, {"unet": ["antigravity", "UNet"]}])
def test_a_pipeline_or_component_from_outside_of_diffusers_is_rejected(change: dict[str, Any], copy_of: Tiny) -> None:
    folder = copy_of("ddim")
    edit_index(folder, **change)
    with pytest.raises(ModelLoadError, match=r"not part of diffusers.*--trust-remote-code"):
        load_quietly(str(folder))
