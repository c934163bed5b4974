"""Reading finished outputs as requests: from manifests, from files alone, and in groups that one run can render."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from omni_cli.api.recorded import group_by_run, read_samples
from omni_cli.errors import UsageError
from omni_cli.journal import read_rows
from tests.api.recorded_run import render_recorded_run

ARRAYS = ["array.npy", "deep.png", "loose", "zip.npz", "tensors.safetensors"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_recorded_run(tmp_path_factory.mktemp("done"))


def test_a_manifest_records_every_sample_of_its_rows(done: Path) -> None:
    names = ["clip.mp4", "in/side-0.png", "in/side-1.png", "late.jpg", *ARRAYS]
    assert sorted(sample.name for sample in read_samples(done)) == sorted(names)


@pytest.mark.parametrize("name", ["clip.mp4", "in/side-1.png", "late.jpg", "array.npy", "deep.png", "loose"])
def test_a_file_is_read_from_its_metadata_or_from_the_manifest_above_it(done: Path, tmp_path: Path, name: str) -> None:
    (sample,) = read_samples(done / name)
    assert sample.request.output == Path(name).name
    if name in ("clip.mp4", "in/side-1.png"):
        copy = tmp_path / Path(name).name
        copy.write_bytes((done / name).read_bytes())
        assert read_samples(copy)[0].request == sample.request


def test_samples_of_one_model_tuning_and_encoding_are_one_group(done: Path) -> None:
    samples = read_samples(done)
    assert [len(group) for group in group_by_run(samples)] == [9]
    late = next(sample for sample in samples if sample.name == "late.jpg")
    assert late.made is not None
    finer = replace(late, made=msgspec.structs.replace(late.made, encoding={"quality": 90}))
    tuned = replace(late, made=msgspec.structs.replace(late.made, tuning={"vae_tiling": True}))
    threads = replace(late, made=msgspec.structs.replace(late.made, threads=99))
    array = next(sample for sample in samples if sample.name == "array.npy")
    assert array.made is not None
    floats = replace(array, made=msgspec.structs.replace(array.made, encoding={"float_arrays": True}))
    assert [len(group) for group in group_by_run([*samples, finer, tuned, threads, floats])] == [9, 2, 1, 1]


def test_rows_record_device_threads_versions_and_encoder_settings(done: Path) -> None:
    made = {row.id: row.made for row in read_rows(done / "manifest.jsonl")}
    late = made["late"]
    assert late is not None
    assert (late.device, late.threads) == ("cpu", 1)
    assert late.encoding == {"quality": 70}
    assert {"omni-gen", "torch", "pillow"} <= late.versions.keys()


def write(path: Path) -> Path:
    if path.suffix == ".png":
        Image.new("RGB", (8, 8)).save(path)
    else:
        path.write_bytes(b"")
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none", "no such file"),
        (lambda folder: write(folder / "x.png"), "carries no document"),
        (lambda folder: write(folder / "x.mp4"), "cannot be read"),
        (lambda folder: write(folder / "manifest.jsonl"), "has no finished request"),
    ],
)
def test_a_path_that_records_nothing_is_refused(tmp_path: Path, make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_samples(make(tmp_path))


def test_ids_that_no_row_has_are_named(done: Path) -> None:
    with pytest.raises(UsageError, match='no row of "nope"'):
        read_samples(done, ["clip", "nope"])


def test_ids_do_not_go_with_a_single_output(done: Path) -> None:
    with pytest.raises(UsageError, match="--id: selects rows of a manifest"):
        read_samples(done / "clip.mp4", ["clip"])


def test_a_document_of_another_version_is_refused(tmp_path: Path) -> None:
    info = PngInfo()
    info.add_itxt("omni_gen", json.dumps({"request": {"prompt": 3}, "model": {}}))
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png", pnginfo=info)
    with pytest.raises(UsageError, match="its document is not one of this version"):
        read_samples(tmp_path / "x.png")
