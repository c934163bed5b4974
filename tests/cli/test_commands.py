"""The small commands, and the texts of the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import omni_cli
from omni_cli.cli.app import main
from omni_cli.cli.settings import batch_size, byte_count, shard, transport
from omni_cli.errors import UsageError


def omni_gen(*args: str | Path, text: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "omni_cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, input=text)


def test_validate_counts_good_requests_and_names_bad_ones() -> None:
    good = omni_gen("validate", "-", text='{"prompt": "a"}\n{"prompt": "b"}\n')
    assert (good.returncode, good.stderr) == (0, "2 requests, no problems\n")
    bad = omni_gen("validate", "-", text='{"prompt": "a"}\n{"prompt": "b", "width": 65}\n')
    assert bad.returncode == 2
    assert "<stdin>:2:26: width: 65 is not a multiple of 16; nearest are 64 and 80" in bad.stderr


def test_validate_knows_the_rules_of_the_model_it_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "LTXPipeline", "_diffusers_version": "0.36.0"}')
    row = '{"prompt": "a", "num_frames": 9, "height": 64, "width": 48}\n'
    result = omni_gen("validate", "-", "--model", tmp_path, text=row)
    assert "width: 48 is not a multiple of 32; nearest are 32 and 64" in result.stderr


def test_cards_of_ones_own_are_heeded_and_judged_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "cards.toml").write_text("[cards.WanPipeline]\nsizes = { multiple = 48 }\n")
    row = '{"prompt": "a", "width": 64, "height": 48}\n'
    result = omni_gen("validate", "-", "--cards", tmp_path / "cards.toml", text=row)
    assert "width: 64 is not a multiple of 48" in result.stderr
    (tmp_path / "cards.toml").write_text("[cards.WanPipeline]\nsize = 3\n")
    result = omni_gen("run", "-", "-o", tmp_path / "out", "--cards", tmp_path / "cards.toml", text=row)
    assert (result.returncode, "did you mean 'sizes'?" in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


def test_info_is_what_a_bug_report_needs() -> None:
    facts = json.loads(omni_gen("info", "--json").stdout)
    assert facts["omni-gen"] == omni_cli.__version__
    assert facts["formats"]["png"] == "pillow"
    assert facts["formats"]["mp4"] in ("pyav", "ffmpeg")
    assert any(device["type"] == "cpu" and device["dtype"] == "float32" for device in facts["devices"])
    assert set(facts["packages"]) >= {"torch", "diffusers", "av"}
    assert "torch: " in omni_gen("info", "--no-devices").stdout


def test_an_unknown_flag_is_bad_usage() -> None:
    assert omni_gen("run", "x.jsonl", "--no-such-flag").returncode == 2


def test_wrong_flag_values_are_told_all_at_once() -> None:
    result = omni_gen("run", "-", "--height", "0", "--fps", "-1", "--format", "mpeg", text='{"prompt": "x"}\n')
    assert result.returncode == 2
    assert [line.split(":")[-2].strip() for line in result.stderr.splitlines()] == ["--height", "--fps", "--format"]


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("1K", 1024), ("512M", 512 << 20), ("1.5GiB", 3 << 29), ("2gb", 2 << 30)]
)
def test_byte_counts(text: str, size: int) -> None:
    assert byte_count(text, "--x") == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1Q", "G", "1e9"])
def test_byte_counts_that_mean_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="such as 512M"):
        byte_count(text, "--x")


def test_shards_and_batch_sizes() -> None:
    assert shard("2/4") == (2, 4)
    assert batch_size("auto") == 0
    assert batch_size("8") == 8
    for wrong in ("0/4", "5/4", "1", "a/b"):
        with pytest.raises(UsageError, match="I/N"):
            shard(wrong)
    for wrong in ("0", "-1", "many", "9999", "٣"):
        with pytest.raises(UsageError, match="or auto"):
            batch_size(wrong)


def test_the_flag_wins_over_the_text_and_the_text_over_the_deploy_file(tmp_path: Path) -> None:
    deploy = tmp_path / "deploy.yaml"
    deploy.write_text("stages:\n  - stage_id: 0\n    video_output_transport: {enable_device_postprocess: false}\n")
    on, off = '{"enable_device_postprocess": true}', '{"enable_device_postprocess": false}'
    assert transport(None, None, None).enable_device_postprocess
    assert not transport(None, None, deploy).enable_device_postprocess
    assert transport(None, on, deploy).enable_device_postprocess
    assert transport(True, off, deploy).enable_device_postprocess


@pytest.mark.parametrize(
    "content", ["[]", "stages: 3", "stages:\n  - video_output_transport: {bogus: 1}", "a: [", "stages: [1]"]
)
def test_a_deploy_file_that_cannot_be_used_is_named(tmp_path: Path, content: str) -> None:
    deploy = tmp_path / "deploy.yaml"
    deploy.write_text(content)
    with pytest.raises(UsageError, match=r"deploy\.yaml"):
        transport(None, None, deploy)


@pytest.mark.parametrize("writable", [True, False])
def test_a_bug_is_told_with_its_traceback_also_where_no_file_can_be_written(
    writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path if writable else tmp_path / "nowhere"))
    monkeypatch.setattr("omni_cli.cli.app.app", lambda: {}["no such key"])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    with pytest.raises(SystemExit) as left:
        main()
    said = capsys.readouterr().err
    assert left.value.code == 3
    assert "this is a bug (KeyError)" in said
    trace = next(tmp_path.iterdir()).read_text() if writable else said
    assert "KeyError: 'no such key'" in trace
