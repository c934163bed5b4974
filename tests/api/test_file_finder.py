"""Inputs, models and components of recorded samples are found again by content."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image

from omni_cli.api.file_finder import FileFinder
from omni_cli.api.recorded import RecordedSample, read_samples
from omni_cli.errors import PromptFileError
from omni_cli.inputs import input_files
from omni_cli.models.content_revision import content_revision
from omni_cli.models.demo import WEIGHTS
from omni_cli.request import Adapter, GenerationRequest, ModelInfo, Provenance
from tests.api.recorded_run import CONFIG, render_lines


def picture(path: Path, level: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), (level, 1, 2)).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a finished run in `run/out` of an image and two inputs in `extra`; work in `work`."""
    source, run = tmp_path / "run/in", tmp_path / "run"
    picture(source / "pose.png")
    picture(source / "a/ref.png", 1)
    picture(source / "b/ref.png", 2)
    extra = {"references": [{"image": "in/a/ref.png"}, {"image": "in/b/ref.png"}]}
    row = {"id": "x", "prompt": "p", "num_frames": 1, "seed": 1, "image": "in/pose.png", "extra": extra}
    config = msgspec.structs.replace(
        CONFIG, output=msgspec.structs.replace(CONFIG.output, output_dir=str(tmp_path / "run/out"))
    )
    render_lines(json.dumps(row).encode(), run / "p.jsonl", config)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def sent_away(folder: Path) -> RecordedSample:
    """Return the sample of a copy of the picture, far from its manifest."""
    (folder / "away").mkdir(exist_ok=True)
    shutil.copy(folder / "run/out/x.png", folder / "away/x.png")
    (sample,) = read_samples(folder / "away/x.png")
    return sample


def paths_of(sample: RecordedSample) -> list[str]:
    return [file.path for file in input_files(sample.request)]


@pytest.mark.parametrize(
    ("place", "input_dirs"),
    [("away", []), ("work", []), ("assets", ["assets"]), ("assets/deep/er", ["none", "assets"])],
    ids=["beside the output", "working folder", "input dir", "below an input dir"],
)
def test_inputs_that_moved_are_found_by_their_hash(folder: Path, place: str, input_dirs: list[str]) -> None:
    sample = sent_away(folder)
    assert paths_of(sample) == ["pose.png", "ref.png", "ref.png"]
    (folder / place).mkdir(parents=True, exist_ok=True)
    shutil.move(folder / "run/in/pose.png", folder / place / "pose.png")
    shutil.move(folder / "run/in/a/ref.png", folder / place / "renamed.png")
    shutil.move(folder / "run/in/b/ref.png", folder / place / "ref.png")
    (located,) = FileFinder([folder / name for name in input_dirs]).locate_all([sample])
    assert paths_of(located) == [str(folder / place / name) for name in ("pose.png", "renamed.png", "ref.png")]


def test_inputs_are_found_where_a_manifest_above_the_file_names_them(folder: Path) -> None:
    (sample,) = read_samples(folder / "run/out/x.png")
    assert paths_of(FileFinder().locate_all([sample])[0]) == [
        str(folder / "run/in" / name) for name in ("pose.png", "a/ref.png", "b/ref.png")
    ]


@pytest.mark.parametrize("read", [lambda folder: sent_away(folder), lambda folder: read_samples(folder / "run/out")[0]])
def test_a_file_of_another_content_does_not_count(folder: Path, read: Callable[[Path], RecordedSample]) -> None:
    sample = read(folder)
    sha256 = sample.inputs[0].sha256
    for place in ("run/in", "run/out", "away", "work", "assets"):
        picture(folder / place / "pose.png", 99)
    os.mkfifo(folder / "work/ref.png")
    with pytest.raises(PromptFileError) as refused:
        FileFinder([folder / "assets"]).locate_all([sample])
    first = refused.value.problems[0]
    assert (first.source, first.field) == (str(sample.path), "image")
    assert f'"pose.png" (SHA-256 {sha256}) is not found' in str(first)
    assert "--input-dir" in first.remedy
    assert ("is another one now" in first.cause) == (sample.file is not None)


@pytest.mark.parametrize("name", ["", "..", "../../run/in/pose.png", "a\0b", "/etc"])
def test_a_hostile_name_in_a_record_leads_nowhere(folder: Path, name: str) -> None:
    sample = sent_away(folder)
    records = (msgspec.structs.replace(sample.inputs[0], name=name, bytes=None), *sample.inputs[1:])
    _, problems = FileFinder().locate(replace(sample, inputs=records))
    assert len(problems) == 3
    assert str(problems[0]).isprintable()


def of_version_0_1_0(path: str, folder: Path) -> RecordedSample:
    request = GenerationRequest(prompt="p", image=path, lora=[Adapter(path="owner/style")])
    info = ModelInfo(id="demo", revision=None, pipeline="Null", dtype="float32")
    return RecordedSample(request, info, None, "x.png", folder / "x.png")


def test_inputs_without_recorded_hashes_are_taken_from_their_paths_or_by_name(tmp_path: Path) -> None:
    here = picture(tmp_path / "in/pose.png")
    sample = of_version_0_1_0(str(here), tmp_path)
    assert paths_of(FileFinder().locate_all([sample])[0]) == [str(here), "owner/style"]
    moved = here.rename(picture(tmp_path / "moved/pose.png"))
    assert paths_of(FileFinder([moved.parent]).locate_all([sample])[0]) == [str(moved), "owner/style"]
    shutil.copy(moved, tmp_path / "pose.png")  # beside the output, but it may be any picture of that name
    with pytest.raises(PromptFileError, match=r'x.png: image: ".*/in/pose.png" is not there'):
        FileFinder().locate_all([sample])


def model_sample(path: Path, model: Path, **tuning: Any) -> RecordedSample:
    """Return a sample of a file that names its local model by base name and revision."""
    revision = "+".join(content_revision(part) for part in (model, *map(Path, tuning.get("components", {}).values())))
    components = {name: Path(file).name for name, file in tuning.get("components", {}).items()}
    info = ModelInfo(id=model.name, revision=revision, pipeline="WanPipeline", dtype="float32")
    made = Provenance(tuning={"components": components} if components else {})
    return RecordedSample(GenerationRequest(prompt="p"), info, made, path.name, path, has_local_model=True)


@pytest.mark.parametrize("place", ["away", "work", "models"])
def test_a_local_model_and_its_components_are_found_by_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    shutil.copytree(WEIGHTS, tmp_path / place / "m")
    vae = tmp_path / place / "v.safetensors"
    shutil.copy(WEIGHTS / "vae/diffusion_pytorch_model.safetensors", vae)
    sample = model_sample(tmp_path / "away/x.mp4", tmp_path / place / "m", components={"vae": str(vae)})
    (located,) = FileFinder([tmp_path / "models"]).locate_all([sample])
    assert located.model_location == str(tmp_path / place / "m")
    assert located.made is not None
    assert located.made.tuning == {"components": {"vae": str(vae)}}
    (tmp_path / place / "m/tokenizer/extra.txt").write_text("changed")
    with pytest.raises(
        PromptFileError, match=r'x.mp4: model: "m" \(revision sha256:.*\) is not found; give .* --model'
    ):
        FileFinder([tmp_path / "models"]).locate_all([sample])
    assert FileFinder([tmp_path / "models"]).locate_all([sample], model=False)


def test_a_model_that_a_manifest_above_names_is_found(folder: Path) -> None:
    shutil.copytree(WEIGHTS, folder / "far/m")
    manifest = folder / "run/out/manifest.jsonl"
    row = json.loads(manifest.read_text())
    row["made"]["model"] = str(folder / "far/m")
    manifest.write_text(json.dumps(row) + "\n")
    sample = model_sample(folder / "run/out/x.png", folder / "far/m")
    assert FileFinder().locate_all([sample])[0].model_location == str(folder / "far/m")


def test_the_demo_and_hub_models_are_not_searched(tmp_path: Path) -> None:
    for name in ("demo", "owner/name"):
        info = ModelInfo(id=name, revision="r", pipeline="P", dtype="float32")
        sample = RecordedSample(GenerationRequest(prompt="p"), info, Provenance(), "x.png", tmp_path / "x.png")
        assert FileFinder().locate_all([sample]) == [sample]
