"""`omni-gen replay` and `verify`: the record is enough to render the same pixels again."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import pytest
from msgspec import structs
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from omni_cli.api.file_finder import FileFinder
from omni_cli.api.recorded import read_samples
from omni_cli.api.rerender import CHANGED, EXACT, FAILED, Comparison, compare_all
from omni_cli.cli.rerun import rerun, verify_outputs
from omni_cli.config import Tuning
from omni_cli.errors import PromptFileError, RunCutShort, UsageError
from omni_cli.journal import read_rows
from tests.api.recorded_run import CONFIG, render_lines, render_recorded_run
from tests.cli.conftest import omni_gen

STILLS = ("png", "png16", "jpeg", "webp", "npz", "safetensors")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_recorded_run(tmp_path_factory.mktemp("done"))


def rerun_and_compare(samples: list[Any], folder: Path) -> dict[str, Comparison]:
    """Render `samples` again into `folder` and compare, by name."""
    assert rerun(samples, CONFIG, None, folder, "none") == 0
    return {comparison.name: comparison for comparison in compare_all(samples, folder)}


def test_every_sample_of_a_manifest_comes_out_bit_exact(done: Path, tmp_path: Path) -> None:
    comparisons = rerun_and_compare(read_samples(done), tmp_path / "second")
    assert {name: comparison.outcome for name, comparison in comparisons.items()} == dict.fromkeys(comparisons, EXACT)
    assert len(comparisons) == 9
    assert (tmp_path / "second/late.jpg").read_bytes() == (done / "late.jpg").read_bytes()  # at its own quality


@pytest.mark.parametrize("name", ["clip.mp4", "in/side-1.png", "late.jpg", "array.npy", "deep.png", "loose"])
def test_a_single_file_comes_out_bit_exact(done: Path, tmp_path: Path, name: str) -> None:
    comparisons = rerun_and_compare(read_samples(done / name), tmp_path / "second")
    assert [comparison.outcome for comparison in comparisons.values()] == [EXACT]


def test_a_later_run_that_cannot_start_says_what_was_rendered_before(done: Path, tmp_path: Path) -> None:
    first, second, *_ = read_samples(done)
    request = structs.replace(second.request, image=str(tmp_path / "gone.png"))
    faulty = replace(second, request=request, model=structs.replace(second.model, pipeline="Another"))
    with pytest.raises(RunCutShort, match=r"gone\.png[\s\S]*1 of 2 samples were rendered before, into "):
        rerun([first, faulty], CONFIG, None, tmp_path / "second", "none")
    with pytest.raises(PromptFileError) as refused:
        rerun([faulty, first], CONFIG, None, tmp_path / "third", "none")
    assert str(refused.value).startswith(f"{second.path}: image: "), "the place is the recorded file, not a copy"


PICTURE = {"prompt": "a [red] circle\x07", "image": "private/pose.png", "seed": 1}
MEDIA: list[dict[str, Any]] = [
    {"id": form, "format": form, **PICTURE, **({} if form in STILLS else {"num_frames": 3, "width": 65})}
    for form in (*STILLS, "mp4", "mov", "mkv", "webm", "gif", "frames")
]


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a finished run in `out` of every format, by a local model, with an input picture."""
    folder = tmp_path_factory.mktemp("media")
    (folder / "private").mkdir()
    Image.new("RGB", (64, 64), (9, 8, 7)).save(folder / "private/pose.png")
    (folder / "models/x").mkdir(parents=True)
    config = structs.replace(
        CONFIG,
        output=structs.replace(CONFIG.output, output_dir=str(folder / "out")),
        model=structs.replace(CONFIG.model, model=str(folder / "models/x"), tuning=Tuning(offload="model")),
    )
    render_lines("".join(json.dumps(line) + "\n" for line in MEDIA).encode(), folder / "p.jsonl", config)
    return folder


def media_files(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of an output folder but the manifest and its lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "manifest")))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_no_file_but_the_manifest_holds_a_path(media: Path) -> None:
    files = media_files(media / "out")
    assert len(files) == len(MEDIA) + 2  # three frames
    for name, data in files.items():
        assert str(media).encode() not in data.replace(b"\0", b""), name  # EXIF is UTF-16
        assert b"private" not in data.replace(b"\0", b""), name
    assert b"private/pose.png" in (media / "out/manifest.jsonl").read_bytes()


def test_a_replayed_file_is_the_same_byte_for_byte(media: Path, tmp_path: Path) -> None:
    files = media_files(media / "out")
    samples = FileFinder().locate_all(read_samples(media / "out"))
    assert rerun(samples, CONFIG, None, tmp_path / "from manifest", "none") == 0
    assert media_files(tmp_path / "from manifest") == files
    singly = [sample for line in MEDIA for sample in read_samples(media_path(media / "out", line["id"]))]
    assert rerun(FileFinder().locate_all(singly), CONFIG, None, tmp_path / "from files", "none") == 0
    assert media_files(tmp_path / "from files") == files


def media_path(folder: Path, stem: str) -> Path:
    """Return the output of the request `stem`."""
    (path,) = (path for path in folder.iterdir() if path.stem == stem)
    return path


def test_a_file_that_was_sent_away_is_replayed_where_its_input_and_model_are(media: Path, tmp_path: Path) -> None:
    clip = shutil.copy(media / "out/mp4.mp4", tmp_path / "mp4.mp4")
    sample = FileFinder([media / "private", media / "models"]).locate_all(read_samples(Path(clip)))
    assert rerun(sample, CONFIG, None, tmp_path / "again", "none") == 0
    assert (tmp_path / "again/mp4.mp4").read_bytes() == (media / "out/mp4.mp4").read_bytes()


def test_a_clip_in_another_container_is_replayed_in_its_own(media: Path, tmp_path: Path) -> None:
    with av.open(media / "out/mp4.mp4") as source, av.open(tmp_path / "clip.mkv", "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        target.metadata.update(source.metadata)
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    samples = FileFinder([media / "private", media / "models"]).locate_all(read_samples(tmp_path / "clip.mkv"))
    assert rerun(samples, CONFIG, None, tmp_path / "again", "none") == 0
    assert (tmp_path / "again/clip.mp4").read_bytes() == (media / "out/mp4.mp4").read_bytes()


def test_problems_of_a_replay_are_placed_at_the_output(media: Path, tmp_path: Path) -> None:
    clip = shutil.copy(media / "out/mp4.mp4", tmp_path / "away.mp4")
    missing = omni_gen("replay", clip, "-o", tmp_path / "again", cwd=tmp_path)
    assert missing.returncode == 2
    digest = hashlib.sha256((media / "private/pose.png").read_bytes()).hexdigest()
    assert f'{clip}: image: "pose.png" (SHA-256 {digest}) is not found' in missing.stderr
    assert f'{clip}: model: "x" is not found' in missing.stderr
    assert "omni-gen-replay" not in missing.stderr
    # The demo model is no image-to-video pipeline: an error of the check behind the search.
    found = omni_gen("replay", clip, "-m", "demo", "--input-dir", media / "private", "-o", tmp_path / "again")
    assert found.returncode == 2
    assert f"{clip}: image: " in found.stderr
    assert "omni-gen-replay" not in found.stderr


def test_verify_names_the_output_whose_input_is_gone_and_checks_the_others(tmp_path: Path) -> None:
    picture = tmp_path / "pose.png"
    Image.new("RGB", (64, 64)).save(picture)
    lines = [{"id": "a", "prompt": "p", "num_frames": 1, "image": "pose.png"}, {"id": "b", "prompt": "p"}]
    config = structs.replace(CONFIG, output=structs.replace(CONFIG.output, output_dir=str(tmp_path / "out")))
    render_lines("".join(json.dumps(line) + "\n" for line in lines).encode(), tmp_path / "p.jsonl", config)
    picture.unlink()
    verification = verify_outputs(tmp_path / "out", (), None, 0, CONFIG, None, None, "none")
    outcomes = {comparison.name: comparison.outcome for comparison in verification.compared}
    assert (outcomes, verification.exit_code) == ({"a.png": FAILED, "b.png": EXACT}, 1)
    assert 'image: "pose.png" (SHA-256 ' in verification.compared[0].detail


def test_a_file_of_version_0_1_0_is_replayed(media: Path, tmp_path: Path) -> None:
    document = {
        "version": "0.1.0",
        "request": {
            "id": "old", "prompt": "p", "seed": 2**62, "image": str(media / "private/pose.png"),
            "height": 16, "width": 16, "num_frames": 1, "num_outputs": 1, "format": "png",
        },
        "sample": 0,
        "model": {"id": "models/x", "revision": None, "pipeline": "Null", "dtype": "float32"},
        "fingerprint": "f00d",
        "made": {"model": str(media / "models/x"), "device": "cpu", "versions": {}, "tuning": {}, "encoding": {}},
    }  # fmt: skip
    info = PngInfo()
    info.add_itxt("omni_gen", json.dumps(document))
    Image.new("RGB", (16, 16)).save(tmp_path / "old.png", pnginfo=info)
    samples = FileFinder().locate_all(read_samples(tmp_path / "old.png"))
    assert rerun(samples, CONFIG, None, tmp_path / "again", "none") == 0
    (row,) = read_rows(tmp_path / "again/manifest.jsonl")
    assert (row.request.seed, row.request.image) == (2**62, str(media / "private/pose.png"))
    assert row.made is not None
    assert row.made.model == str(media / "models/x")
    assert row.inputs[0].name == "pose.png"


def test_verify_finds_the_demo_models_pixels_equal_and_a_changed_file(tmp_path: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "a red circle on a blue background", "num_frames": 1, "num_inference_steps": 1}\n')

    def run(*args: str) -> "subprocess.CompletedProcess[str]":
        return omni_gen(*args, "--progress", "none", cwd=tmp_path)

    assert run("run", "p.jsonl", "-o", "out").returncode == 0
    verified = run("verify", "out", "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["word"] == EXACT
    (picture,) = (tmp_path / "out").glob("*.png")
    Image.new("RGB", (64, 64)).save(picture)
    changed = run("verify", "out")
    assert (changed.returncode, changed.stdout.split(":")[1].strip()) == (1, CHANGED)


def test_verify_without_a_temporary_folder_asks_for_one(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="name one with --keep, or set TMPDIR"):
        verify_outputs(done, (), 1, 0, CONFIG, None, None, "none")
    kept = verify_outputs(done, (), 1, 0, CONFIG, None, tmp_path / "kept", "none")
    assert [comparison.outcome for comparison in kept.compared] == [EXACT]
