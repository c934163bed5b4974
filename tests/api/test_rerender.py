"""Comparing a second rendering with the first: files, pixels, and the environments behind them."""

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image

from omni_cli.api.recorded import read_samples
from omni_cli.api.rerender import (
    CHANGED,
    CLOSE,
    DIFFERENT,
    EXACT,
    FAILED,
    MISSING,
    Comparison,
    check_recorded_file,
    compare_all,
    draw_samples,
    environment_changes,
    rerun_config,
)
from omni_cli.config import EngineConfig, ModelConfig, RunConfig
from omni_cli.journal import read_rows
from omni_cli.prompts.object_source import ObjectSource
from omni_cli.request import GenerationRequest, Provenance
from tests.api.recorded_run import CONFIG, render_recorded_run, render_source


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_recorded_run(tmp_path_factory.mktemp("done"))


def test_changed_pixels_sizes_and_missing_renderings_are_found(done: Path, tmp_path: Path) -> None:
    samples, folder = read_samples(done), tmp_path / "second"
    config = rerun_config(samples, CONFIG, None, folder)
    render_source(ObjectSource(((str(sample.path), sample.request) for sample in samples), config.defaults), config)
    for name, change in (("in/side-0.png", 1), ("in/side-1.png", 9)):
        levels = np.asarray(Image.open(folder / name)).copy()
        levels[5, 6, 1] += change
        Image.fromarray(levels).save(folder / name)
    np.save(folder / "array.npy", np.zeros((8, 8, 3), np.uint8))
    comparisons = {comparison.name: comparison for comparison in compare_all(samples, folder)}
    assert comparisons["in/side-0.png"].outcome == CLOSE
    assert comparisons["in/side-1.png"].outcome == DIFFERENT
    assert "9 of 255" in comparisons["in/side-1.png"].detail
    assert comparisons["array.npy"].outcome == DIFFERENT
    assert "another size" in comparisons["array.npy"].detail
    assert comparisons["clip.mp4"].outcome == EXACT
    assert {comparison.outcome for comparison in compare_all(samples, tmp_path / "empty")} == {FAILED}


def test_missing_and_changed_files_are_found_without_rendering(done: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(done, copy)
    assert not any(check_recorded_file(sample) for sample in read_samples(copy))
    (copy / "clip.mp4").unlink()
    (copy / "late.jpg").write_bytes((copy / "late.jpg").read_bytes() + b"x")
    problems = [problem for sample in read_samples(copy) if (problem := check_recorded_file(sample)) is not None]
    assert {problem.name: problem.outcome for problem in problems} == {"clip.mp4": MISSING, "late.jpg": CHANGED}


def test_changes_of_the_environment_are_named(done: Path) -> None:
    (sample,) = read_samples(done, ["clip"])
    row = next(row for row in read_rows(done / "manifest.jsonl") if row.id == "clip")
    assert row.made is not None
    assert list(environment_changes(sample, row)) == []
    made = Provenance(device="cuda:0", versions={**row.made.versions, "torch": "9.9"})
    other = msgspec.structs.replace(row, model=msgspec.structs.replace(row.model, dtype="bfloat16"), made=made)
    assert list(environment_changes(sample, other)) == [
        "model dtype: float32 → bfloat16",
        "device: cpu → cuda:0",
        f"torch: {row.made.versions['torch']} → 9.9",
    ]


def test_a_seed_draws_the_same_samples_in_their_order(done: Path) -> None:
    samples = read_samples(done)
    drawn = draw_samples(samples, 3, 1)
    assert drawn == draw_samples(samples, 3, 1)
    assert [sample for sample in samples if sample in drawn] == drawn
    assert draw_samples(samples, 99, 1) == samples
    assert len({tuple(s.name for s in draw_samples(samples, 2, seed)) for seed in range(20)}) > 3


def test_settings_are_those_recorded_and_the_model_may_have_moved(done: Path) -> None:
    samples = read_samples(done, ["late"])
    config = rerun_config(samples, RunConfig(model=ModelConfig(device="cuda:1")), "elsewhere/model", Path("o"))
    assert (config.output.quality, config.output.output_dir) == (70, "o")
    assert (config.model.model, config.model.device, config.model.dtype) == ("elsewhere/model", "cuda:1", "float32")
    assert config.defaults == GenerationRequest()
    assert config.engine.threads == samples[0].threads == 1


def test_a_rendering_has_as_many_threads_as_the_first_unless_told_otherwise(done: Path) -> None:
    (sample,) = read_samples(done, ["late"])
    assert sample.made is not None
    sample = replace(sample, made=msgspec.structs.replace(sample.made, threads=3))
    assert rerun_config([sample], RunConfig(), None, Path("o")).engine.threads == 3
    told = RunConfig(engine=EngineConfig(threads=2))
    assert rerun_config([sample], told, None, Path("o")).engine.threads == 2
    row = next(row for row in read_rows(done / "manifest.jsonl") if row.id == "late")
    assert list(environment_changes(sample, row)) == ["threads: 3 → 1"]


def test_a_comparison_is_one_line_for_people_and_one_object_for_programs() -> None:
    comparison = Comparison("a.png", EXACT, "1 frame", ("torch: 1 → 2",))
    assert str(comparison) == "a.png: bit-exact: 1 frame [torch: 1 → 2]"
    assert msgspec.json.decode(msgspec.json.encode(comparison)) == {
        "name": "a.png", "word": "bit-exact", "detail": "1 frame", "why": ["torch: 1 → 2"],
    }  # fmt: skip
