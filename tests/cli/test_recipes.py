"""The commands of the recipes run as they are written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import peft
import pytest

from omni_cli.models.demo import WEIGHTS
from omni_cli.storage.shards import holds
from tests.cli.conftest import manifest_rows
from tests.worker.conftest import plain

DOCS = Path(__file__).parent.parent.parent / "docs"
SECTIONS = (DOCS / "recipes.md").read_text("utf-8").split("\n## ")[1:]
RECIPES = {
    section.partition("\n")[0]: "".join(re.findall(r"(?ms)^```bash\n(.*?)^```", section))
    for section in SECTIONS
    if "```bash" in section
}
PROMPTS = [
    {"id": "ball", "prompt": "a red circle moving right", "seed": 7, "num_frames": 5},
    {"id": "logo", "prompt": "a green square", "seed": 8, "num_frames": 1},
]


def bash(script: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `script` in `folder`, where `omni-gen` is the program of this Python."""
    path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder with the lists that the recipes name; `param` is put behind each `omni-gen run`."""
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PROMPTS))
    (tmp_path / "vbench.json").write_text(json.dumps([{"prompt_en": "a red circle", "dimension": ["color"]}]))
    program = tmp_path / "bin" / "omni-gen"
    program.parent.mkdir()
    further = getattr(request, "param", "")
    program.write_text(f"""#!/bin/sh
        [ "$1" = run ] && set -- "$@" {further}
        exec {sys.executable} -m omni_cli "$@"
    """)
    program.chmod(0o755)
    return tmp_path


without_model = pytest.mark.parametrize("folder", ["--runner omni_cli.worker.null:NullRunner"], indirect=True, ids=[""])


def run_recipe(title: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    result = bash(RECIPES[title], folder, PYTHONPATH=str(DOCS.parent))
    assert result.returncode == 0, result.stderr
    return result


def test_every_recipe_has_a_test() -> None:
    text = Path(__file__).read_text("utf-8")
    assert RECIPES
    assert not [title for title in RECIPES if f'run_recipe("{title}"' not in text]


@without_model
def test_two_folders_are_compared(folder: Path) -> None:
    run_recipe("Two models side by side", folder)
    assert (folder / "both" / "index.html").is_file()


def test_a_benchmarks_list_is_rendered_with_its_other_columns(folder: Path) -> None:
    result = run_recipe("A benchmark's list", folder)
    (row,) = manifest_rows(folder / "vbench")
    assert row["request"]["meta"] == {"dimension": ["color"]}
    assert len(set(row["seeds"])) == 5
    videos = {path.name for path in (folder / "vbench" / "videos").iterdir()}
    assert videos == {f"a red circle-{number}.mp4" for number in range(5)}
    assert "1 done" in result.stdout


def test_a_shot_list_uses_its_adapters(folder: Path) -> None:
    pipeline = plain(WEIGHTS)
    pipeline.transformer.add_adapter(peft.LoraConfig(r=2, init_lora_weights=False, target_modules=["to_q", "to_v"]))
    pipeline.save_lora_weights(
        folder / "loras",
        transformer_lora_layers=peft.get_peft_model_state_dict(pipeline.transformer),
        weight_name="style.safetensors",
    )
    run_recipe("A shot list with adapters", folder)
    wide, hero = (row["files"][0] for row in sorted(manifest_rows(folder / "shots"), key=lambda row: row["id"]))
    assert wide["sha256"] != hero["sha256"]


def test_a_smoke_test_renders_and_marks_mistakes(folder: Path) -> None:
    run_recipe("A smoke test of a model in CI", folder)
    assert {row["status"] for row in manifest_rows(folder / "smoke")} == {"done"}
    (folder / "prompts.jsonl").write_text('{"promt": "a"}\n')
    result = bash(RECIPES["A smoke test of a model in CI"], folder, PYTHONPATH=str(DOCS.parent))
    assert result.returncode == 2
    assert result.stdout.startswith("::error file=prompts.jsonl,line=1,col=2::unknown field")


def test_a_picture_is_rendered_again_from_its_file(folder: Path) -> None:
    run_recipe("A picture from a colleague", folder)
    (made,), (again,) = manifest_rows(folder / "colleague"), manifest_rows(folder / "mine")
    assert made["files"][0]["sha256"] == again["files"][0]["sha256"]


@without_model
def test_a_job_of_an_array_renders_its_part(folder: Path) -> None:
    script = f"{DOCS / 'examples' / 'slurm.sh'} prompts.jsonl"
    variables = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2", "PYTHONPATH": str(DOCS.parent)}
    result = bash(f"bash {script}", folder, **variables)
    assert result.returncode == 0, result.stderr
    (own,) = (folder / "outputs").glob("manifest.*.jsonl")
    rows = [json.loads(line)["id"] for line in own.read_text().splitlines()]
    assert own.name == "manifest.1-of-2.jsonl"
    assert rows == [row["id"] for row in PROMPTS if holds((1, 2), str(row["id"]))]
