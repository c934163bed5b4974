"""`omni-gen info`: the facts for a bug report."""

import json

import omni_cli
from tests.cli.conftest import omni_gen


def test_info_shows_versions_devices_and_formats() -> None:
    facts = json.loads(omni_gen("info", "--json").stdout)
    assert facts["omni-gen"] == omni_cli.__version__
    assert facts["formats"]["png"] == "pillow"
    assert facts["formats"]["mp4"] in ("pyav", "ffmpeg")
    assert any(device["type"] == "cpu" and device["dtype"] == "float32" for device in facts["devices"])
    assert set(facts["packages"]) >= {"torch", "diffusers", "av"}
    assert facts["workers"]["cpu, large requests"].startswith("at most 1 worker of ")
    assert facts["workers"]["cpu, small requests"].startswith("at most ")
    assert "torch: " in omni_gen("info", "--no-devices").stdout
