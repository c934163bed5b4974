"""Model folders that cannot be loaded: each is told by its files, with the cause and the remedy."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omni_cli.errors import ModelLoadError
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.model_files import check_file, check_weights, read_index

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 9987654321\n"
Change = Callable[[Path], None]


def check(folder: Path, variant: str | None = None, replaced: frozenset[str] = frozenset()) -> str:
    """Return the message about `folder`, a model that is called m; "" if nothing is wrong."""
    try:
        check_weights(folder, read_index(folder, "m"), "m", variant, replaced)
    except ModelLoadError as error:
        return str(error).removeprefix("--model 'm': ")
    return ""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a copy of the demo model."""
    return Path(shutil.copytree(WEIGHTS, tmp_path / "model"))


def write(name: str, content: bytes) -> Change:
    return lambda folder: folder.joinpath(name).write_bytes(content) and None


def cut(name: str, size: int) -> Change:
    return lambda folder: os.truncate(folder / name, size)


def remove(name: str) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def rename_weights(of: str, to: str) -> Change:
    def change(folder: Path) -> None:
        for path in list(folder.rglob("*.safetensors")):
            path.rename(path.with_name(path.name.replace(of, to)))

    return change


def shard(present: int) -> Change:
    """Return a change that makes the VAE's weights three parts, of which the first few are there."""

    def change(folder: Path) -> None:
        whole = folder / "vae" / "diffusion_pytorch_model.safetensors"
        names = [f"diffusion_pytorch_model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
        for name in names[:present]:
            shutil.copy(whole, whole.with_name(name))
        whole.unlink()
        index = {"weight_map": {f"tensor{n}": name for n, name in enumerate(names)}}
        whole.with_name(f"{whole.name}.index.json").write_text(json.dumps(index))

    return change


VAE = "vae/diffusion_pytorch_model.safetensors"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (write(VAE, LFS), f"{VAE} is a git-lfs pointer, not the file itself; run `git lfs pull` where it was cloned"),
        (write("tokenizer/tokenizer.json", LFS), "tokenizer/tokenizer.json is a git-lfs pointer"),
        (write(VAE, b""), f"{VAE} is empty; download the model again"),
        (write("vae/config.json", b""), "vae/config.json is empty; download the model again"),
        (write("vae/config.json", b"404 Not Found"), "vae/config.json is not JSON"),
        (write(VAE, b"<!doctype html><html>403"), f"{VAE} is an HTML page, such as a server sends"),
        (write("scheduler/scheduler_config.json", b"<html>"), "scheduler/scheduler_config.json is an HTML page"),
        (write(VAE, b"PK\x03\x04" + bytes(99)), f"{VAE} is an archive"),
        (write(VAE, bytes(999)), f"{VAE} is not a safetensors file"),
        (write(VAE, b"\xff" * 999), f"{VAE} is not a safetensors file"),
        (cut(VAE, 1_915_904), f"{VAE} is cut short: 1,915,904 of 3,831,808 bytes; download the model again"),
        (cut(VAE, 3_831_807), f"{VAE} is cut short: 3,831,807 of 3,831,808 bytes"),
        (cut(VAE, 900), f"{VAE} is cut short"),
        (cut(VAE, 5), f"{VAE} is not a safetensors file"),
        (remove(VAE), "vae has a config.json but no weights (.safetensors); download the model again"),
        (remove("vae"), "vae (AutoencoderKLWan) has no folder; download the model again"),
        (remove("scheduler"), "scheduler (UniPCMultistepScheduler) has no folder"),
        (
            lambda folder: [path.unlink() for path in folder.joinpath("tokenizer").iterdir()] and None,
            "tokenizer (PreTrainedTokenizerFast) is an empty folder",
        ),
        (
            rename_weights(".safetensors", ".fp16.safetensors"),
            "text_encoder has only fp16 weights (and 2 more like it); give the model to --model, with --variant fp16",
        ),
        (
            rename_weights(".safetensors", ".bf16-00001-of-00001.safetensors"),
            "text_encoder has only bf16 weights (and 2 more like it); give the model to --model, with --variant bf16",
        ),
        (rename_weights(".safetensors", ".bin"), "text_encoder has only model.bin, a pickle"),
        (shard(1), "vae lacks 2 of 3 parts of its weights (diffusion_pytorch_model-00002-of-00003.safetensors)"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told_by_its_files(model: Path, change: Change, message: str) -> None:
    assert check(model) == ""
    change(model)
    assert check(model).startswith(message)


def test_whole_weights_pass_in_parts_and_in_a_variant(model: Path) -> None:
    shard(3)(model)
    assert check(model) == ""
    rename_weights(".safetensors", ".fp16.safetensors")(model)
    assert check(model, "fp16") == "", "the list of parts is of the weights without a variant"


def test_variant_that_is_not_there_is_told_with_the_one_that_is(model: Path) -> None:
    rename_weights(".safetensors", ".bf16.safetensors")(model)
    assert check(model, "fp16").startswith("text_encoder has no weights of the variant fp16, but of bf16")


def test_damaged_file_that_is_not_loaded_does_not_matter(model: Path) -> None:
    (model / "vae" / "diffusion_pytorch_model.fp16.safetensors").write_bytes(LFS)
    assert check(model) == ""
    assert "is a git-lfs pointer" in check(model, "fp16")
    (model / VAE).write_bytes(b"")
    assert check(model, replaced=frozenset({"vae"})) == ""


def test_many_equal_faults_are_one_with_their_number(model: Path) -> None:
    for path in list(model.rglob("*.safetensors")):
        path.write_bytes(LFS)
    assert check(model).count("git-lfs") == 1
    assert "(and 2 more like it)" in check(model)


def test_download_of_the_hub_that_was_broken_off_is_said_to_be(model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "models--me--broken"
    snapshot = cache / "snapshots" / ("0123456789" * 4)
    snapshot.parent.mkdir(parents=True)
    model.rename(snapshot)
    (cache / "blobs").mkdir()
    (snapshot / VAE).unlink()
    (snapshot / VAE).symlink_to(cache / "blobs" / "deadbeef")
    assert check(snapshot).startswith(f"{VAE} is a link to a file that is missing; download the model again")
    (cache / "blobs" / "deadbeef.incomplete").write_bytes(b"1234")
    broken_off = "; its download was broken off (deadbeef.incomplete): run it again, with the network"
    assert check(snapshot) == f"{VAE} is a link to a file that is missing{broken_off}"
    (snapshot / VAE).unlink()
    assert check(snapshot).endswith(broken_off)


def test_download_into_a_folder_that_was_broken_off_is_said_to_be(model: Path) -> None:
    partial = model / ".cache" / "huggingface" / "download" / "vae" / "abc.incomplete"
    partial.parent.mkdir(parents=True)
    partial.touch()
    (model / VAE).unlink()
    assert check(model).endswith("its download was broken off (abc.incomplete): run it again, with the network")


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (
            {"config.json": '{"_class_name": "WanModel"}', "Wan2.1_VAE.pth": "x"},
            "it is in its original layout (Wan2.1_VAE.pth)",
        ),
        ({"transformers/mp_rank_00_model_states.pt": "x"}, "it is in its original layout (mp_rank"),
        ({"v1-5-pruned.ckpt": "x"}, "it is in its original layout (v1-5-pruned.ckpt)"),
        ({"model.safetensors.index.json": "{}", "config.json": "{}"}, "it is in its original layout: find"),
        (
            {"config.json": '{"_class_name": "AutoencoderKL"}'},
            "it is one component of a pipeline (AutoencoderKL)",
        ),
        ({"sub/model_index.json": "{}"}, "there is one in sub: give that folder"),
        ({"snapshots/abc/model_index.json": "{}"}, "there is one in snapshots/abc: give that folder"),
        ({"vae/config.json": "{}", "unet/config.json": "{}"}, "it has components (unet, vae), so its download is not"),
        ({".cache/huggingface/download/a.incomplete": ""}, "its download was broken off (a.incomplete): run it again"),
        ({"whole.safetensors": ""}, "if whole.safetensors is a whole model, give the file itself to --model"),
    ],
)
def test_folder_in_another_layout_is_told_for_what_it_is(files: dict[str, str], hint: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert f"the folder has no model_index.json, so it is not a diffusers pipeline; {hint}" in check(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [(LFS, "is a git-lfs pointer"), (b"", "is empty"), (b"<html>", "is an HTML page"), (b"x" * 99, "is not a safe")],
)
def test_single_file_is_checked_likewise(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(content)
    with pytest.raises(ModelLoadError, match=f"--model 'm.safetensors': {words}"):
        check_file(tmp_path / "m.safetensors", "m.safetensors")
