"""Replay and verify: what is recorded is enough to render it again, and a changed pixel is seen."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image

from omni_cli.api.again import CHANGED, CLOSE, DIFFERENT, EXACT, FAILED, MISSING, Verdict, differences, settings
from omni_cli.api.recorded import by_run, recorded
from omni_cli.cli.again import faulty, judge, line_of, render_again, sampled
from omni_cli.cli.perform import perform
from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig
from omni_cli.errors import UsageError
from omni_cli.journal import read_rows
from omni_cli.request import GenerationRequest, Made

BASE = RunConfig(engine=EngineConfig(runner="omni_cli.worker.null:NullRunner"))
PROMPTS: list[dict[str, Any]] = [
    {"id": "clip", "prompt": "a [red] circle\x07", "num_frames": 3, "seed": 30},
    {"id": "pair", "prompt": "two", "num_outputs": 2, "seed": 40, "output": "in/side.png"},
    {"id": "late", "prompt": "derived seed", "format": "jpeg", "negative_prompt": "none"},
    {"id": "array", "prompt": "levels", "format": "npy", "seed": 60},
    {"id": "deep", "prompt": "floats", "format": "png16", "seed": 70},
    {"id": "loose", "prompt": "frames", "format": "frames", "num_frames": 2, "seed": 80},
    {"id": "zip", "prompt": "arrays", "format": "npz", "seed": 90},
    {"id": "tensors", "prompt": "tensors", "format": "safetensors", "num_frames": 2, "seed": 100},
]
ARRAYS = ["array.npy", "deep.png", "loose", "zip.npz", "tensors.safetensors"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of PROMPTS."""
    folder = tmp_path_factory.mktemp("done")
    prompts = folder / "p.jsonl"
    prompts.write_text("".join(json.dumps(line) + "\n" for line in PROMPTS))
    config = msgspec.structs.replace(BASE, output=OutputConfig(output_dir=str(folder / "out"), quality=70), seed=9)
    assert perform(str(prompts), config, "none", None, None, None) == 0
    return folder / "out"


def again(samples: list[Any], folder: Path, base: RunConfig = BASE) -> dict[str, Verdict]:
    assert render_again(samples, base, None, folder, "none") == 0
    return {verdict.name: verdict for verdict in judge(samples, folder)}


def test_every_sample_of_a_manifest_is_rendered_again_with_the_same_pixels(done: Path, tmp_path: Path) -> None:
    samples = recorded(done)
    names = ["clip.mp4", "in/side-0.png", "in/side-1.png", "late.jpg", *ARRAYS]
    assert sorted(sample.name for sample in samples) == sorted(names)
    found = again(samples, tmp_path / "again")
    assert {name: verdict.word for name, verdict in found.items()} == dict.fromkeys(found, EXACT)
    assert len(found) == 9
    assert not faulty(samples)
    assert (tmp_path / "again/late.jpg").read_bytes() == (done / "late.jpg").read_bytes()  # at its own quality


@pytest.mark.parametrize("name", ["clip.mp4", "in/side-1.png", "late.jpg", "array.npy", "deep.png", "loose"])
def test_a_file_alone_is_enough_or_its_manifest_is_found(done: Path, tmp_path: Path, name: str) -> None:
    (sample,) = recorded(done / name)
    assert sample.request.output == Path(name).name
    found = again([sample], tmp_path / "again")
    assert [verdict.word for verdict in found.values()] == [EXACT]
    if name in ("clip.mp4", "in/side-1.png"):
        copy = tmp_path / Path(name).name
        copy.write_bytes((done / name).read_bytes())
        assert recorded(copy)[0].request == sample.request


def test_another_pixel_another_size_and_a_lost_file_are_seen(done: Path, tmp_path: Path) -> None:
    samples = {sample.name: sample for sample in recorded(done)}
    folder = tmp_path / "again"
    assert render_again(list(samples.values()), BASE, None, folder, "none") == 0
    for name, change in (("in/side-0.png", 1), ("in/side-1.png", 9)):
        levels = np.asarray(Image.open(folder / name)).copy()
        levels[5, 6, 1] += change
        Image.fromarray(levels).save(folder / name)
    np.save(folder / "array.npy", np.zeros((8, 8, 3), np.uint8))
    found = {verdict.name: verdict for verdict in judge(list(samples.values()), folder)}
    assert found["in/side-0.png"].word == CLOSE
    assert found["in/side-1.png"].word == DIFFERENT
    assert "9 of 255" in found["in/side-1.png"].detail
    assert found["array.npy"].word == DIFFERENT
    assert "another size" in found["array.npy"].detail
    assert found["clip.mp4"].word == EXACT
    empty = tmp_path / "empty"
    assert {verdict.word for verdict in judge(list(samples.values()), empty)} == {FAILED}


def test_a_file_that_is_gone_or_was_changed_is_told_without_rendering(done: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for path in done.rglob("*"):
        if path.is_file():
            (copy / path.relative_to(done)).parent.mkdir(parents=True, exist_ok=True)
            (copy / path.relative_to(done)).write_bytes(path.read_bytes())
    (copy / "clip.mp4").unlink()
    (copy / "late.jpg").write_bytes((copy / "late.jpg").read_bytes() + b"x")
    assert {name: verdict.word for name, verdict in faulty(recorded(copy)).items()} == {
        "clip.mp4": MISSING,
        "late.jpg": CHANGED,
    }


def test_one_run_serves_all_that_is_alike(done: Path) -> None:
    samples = recorded(done)
    assert [len(group) for group in by_run(samples)] == [9]
    late = next(sample for sample in samples if sample.name == "late.jpg")
    assert late.made is not None
    finer = replace(late, made=msgspec.structs.replace(late.made, encoding={"quality": 90}))
    tuned = replace(late, made=msgspec.structs.replace(late.made, tuning={"vae_tiling": True}))
    assert [len(group) for group in by_run([*samples, finer, tuned])] == [9, 1, 1]


def test_what_differs_between_then_and_now_is_named(done: Path) -> None:
    (sample,) = recorded(done, ["clip"])
    row = next(row for row in read_rows(done / "manifest.jsonl") if row.id == "clip")
    assert row.made is not None
    assert list(differences(sample, row)) == []
    made = Made(device="cuda:0", versions={**row.made.versions, "torch": "9.9"})
    other = msgspec.structs.replace(row, model=msgspec.structs.replace(row.model, dtype="bfloat16"), made=made)
    assert list(differences(sample, other)) == [
        "model dtype: float32 → bfloat16",
        "device: cpu → cuda:0",
        f"torch: {row.made.versions['torch']} → 9.9",
    ]


def test_the_record_says_with_what_it_was_made(done: Path) -> None:
    made = {row.id: row.made for row in read_rows(done / "manifest.jsonl")}
    late = made["late"]
    assert late is not None
    assert late.device == "cpu"
    assert late.encoding == {"quality": 70}
    assert {"omni-gen", "torch", "pillow"} <= late.versions.keys()


def test_the_same_seed_draws_the_same_sample_in_order(done: Path) -> None:
    samples = recorded(done)
    drawn = sampled(samples, 3, 1)
    assert drawn == sampled(samples, 3, 1)
    assert [sample for sample in samples if sample in drawn] == drawn
    assert sampled(samples, 99, 1) == samples
    assert len({tuple(s.name for s in sampled(samples, 2, seed)) for seed in range(20)}) > 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "none", "no such file"),
        (lambda folder: write(folder / "x.png"), "carries no document"),
        (lambda folder: write(folder / "x.mp4"), "cannot be read"),
        (lambda folder: write(folder / "manifest.jsonl"), "no request that was done"),
    ],
)
def test_what_records_nothing_is_refused(tmp_path: Path, make: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        recorded(make(tmp_path))


def write(path: Path) -> Path:
    if path.suffix == ".png":
        Image.new("RGB", (8, 8)).save(path)
    else:
        path.write_bytes(b"")
    return path


def test_an_unknown_row_is_named(done: Path) -> None:
    with pytest.raises(UsageError, match='no row of "nope"'):
        recorded(done, ["clip", "nope"])


def test_a_document_of_another_tool_is_no_document(tmp_path: Path) -> None:
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    info.add_itxt("omni_gen", json.dumps({"request": {"prompt": 3}, "model": {}}))
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png", pnginfo=info)
    with pytest.raises(UsageError, match="not one of this version"):
        recorded(tmp_path / "x.png")


def test_settings_are_those_of_the_record_and_the_place_may_be_another(done: Path) -> None:
    samples = recorded(done, ["late"])
    config = settings(samples, RunConfig(model=ModelConfig(device="cuda:1")), "elsewhere/model", Path("o"))
    assert (config.output.quality, config.output.output_dir) == (70, "o")
    assert (config.model.model, config.model.device, config.model.dtype) == ("elsewhere/model", "cuda:1", "float32")
    assert config.defaults == GenerationRequest()


def test_a_verdict_is_one_safe_line() -> None:
    assert line_of(Verdict("a\x1b[31m.png", EXACT, "1 frame", ("torch: 1 → 2",))) == (
        "a␛[31m.png: bit-exact: 1 frame [torch: 1 → 2]"
    )


def test_from_the_shell_the_demo_model_comes_out_the_same(tmp_path: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "a red circle on a blue background", "num_frames": 1, "num_inference_steps": 1}\n')

    def omni_gen(*args: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "omni_cli", *args, "--progress", "none"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    assert omni_gen("run", "p.jsonl", "-o", "out").returncode == 0
    verified = omni_gen("verify", "out", "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["word"] == EXACT
    Image.new("RGB", (64, 64)).save(tmp_path / "out" / "00000.png")
    changed = omni_gen("verify", "out")
    assert (changed.returncode, changed.stdout.split(":")[1].strip()) == (1, CHANGED)
