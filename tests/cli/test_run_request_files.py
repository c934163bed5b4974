"""Two realistic request files, from plan to verification: an evaluator's prompt list and a studio's shot list."""

import csv
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import peft
import pytest
from PIL import Image

from tests import tiny
from tests.cli.conftest import manifest_rows, omni_gen
from tests.worker.conftest import plain

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]

# Dimensions of a video benchmark, in the manner of VBench: short prompts, the same seeds for each.
SUBJECTS = (
    "a cat",
    "two red kites",
    "una bicicleta",
    "一只猫",
    "a surfer",
    "an old lighthouse",
    "rain",
    "a potter's hands",
)
ACTIONS = ("moving left", "in slow motion", "seen from above", "at night", "zooming out")
PROMPTS = [f"{subject} {action}" for subject in SUBJECTS for action in ACTIONS]
SEEDS = range(5)

SHOTS = [
    # id, model, prompt, image, strength, lora, width, height, seed
    ("010-wide", "models/flux", "a harbour at dawn", "", "", "", 64, 32, 1),
    ("020-insert", "models/flux_img2img", "the same, foggy", "plates/harbour.png", "0.6", "", 64, 32, 2),
    ("030-hero", "models/flux", "the captain, close", "", "", "loras/style.safetensors", 32, 64, 3),
    ("040-wide", "models/flux", "a harbour at noon", "", "", "", 64, 32, 4),
    ("050-insert", "models/flux_img2img", "the same, at night", "plates/harbour.png", "0.9", "", 64, 32, 5),
    (
        "060-hero",
        "models/flux",
        "the captain, laughing",
        "",
        "",
        '[{"path": "loras/style.safetensors", "weight": 0.5}]',
        32,
        64,
        6,
    ),
    ("070-move", "models/wan", "the boat leaves", "", "", "", 64, 32, 7),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project folder: prompt files, models, an image, an adapter."""
    root = tmp_path_factory.mktemp("project")
    for name in ("flux", "flux_img2img", "wan"):
        tiny.save(name, root / "models" / name)
    (root / "plates").mkdir()
    Image.linear_gradient("L").resize((64, 32)).convert("RGB").save(root / "plates" / "harbour.png")
    pipeline = plain(root / "models" / "flux")
    pipeline.transformer.add_adapter(peft.LoraConfig(r=2, init_lora_weights=False, target_modules=["to_q", "to_v"]))
    layers = {key: value * 3 for key, value in peft.get_peft_model_state_dict(pipeline.transformer).items()}
    pipeline.save_lora_weights(root / "loras", transformer_lora_layers=layers, weight_name="style.safetensors")
    (root / "vbench.jsonl").write_text(
        "".join(
            json.dumps({"prompt": prompt, "seed": seed, "id": f"{prompt}-{seed}"}, ensure_ascii=False) + "\n"
            for prompt in PROMPTS
            for seed in SEEDS
        ),
        encoding="utf-8",
    )
    with (root / "shots.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "model", "prompt", "image", "strength", "lora", "width", "height", "seed"])
        rows.writerows(SHOTS)
    return root


@pytest.fixture(scope="module")
def run_program(place: Path) -> RunProgram:
    """Return a function that runs the program in the project folder."""

    return lambda *args: omni_gen(*args, "--progress", "none", cwd=place)


def test_an_evaluators_list_of_40_prompts_and_5_seeds(place: Path, run_program: RunProgram) -> None:
    settings = [
        *("vbench.jsonl", "-m", "models/wan", "-o", "bench", "--num-frames", "1", "--height", "32", "--width", "32"),
        *("--num-inference-steps", "1", "--name-template", "{prompt}-{seed}"),
    ]
    planned = run_program("run", *settings, "--dry-run", "--print", "paths")
    assert planned.returncode == 0, planned.stderr
    assert len(planned.stdout.splitlines()) == 200
    assert not (place / "bench").exists()
    first = run_program("run", *settings, "--limit", "90", "--batch-size", "4")
    assert first.returncode == 0, first.stderr
    whole = run_program("run", *settings, "--print", "paths")
    assert whole.returncode == 0, whole.stderr
    assert len(whole.stdout.splitlines()) == 110  # the rest
    rows = {row["id"]: row for row in manifest_rows(place / "bench")}
    assert len(rows) == 200
    assert {row["status"] for row in rows.values()} == {"done"}
    assert sorted(row["files"][0]["path"] for row in rows.values()) == sorted(
        Path(path).relative_to("bench").as_posix() for path in planned.stdout.splitlines()
    )
    assert (place / "bench" / "一只猫 at night-3.png").is_file()
    verified = run_program("verify", "bench", "--sample", "6")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert len(verified.stdout.splitlines()) == 6
    assert "200 files, 0 missing or changed; 6 of 6" in verified.stderr


def test_a_shot_list_of_images_adapters_models_and_sizes(place: Path, run_program: RunProgram) -> None:
    settings = ["shots.csv", "-o", "shots", "--num-inference-steps", "2", "--num-frames", "1"]
    planned = run_program("run", *settings, "--dry-run", "--print", "json")
    assert planned.returncode == 0, planned.stderr
    groups = [line for line in map(json.loads, planned.stdout.splitlines()) if "requests" in line and "model" in line]
    assert Counter(line["model"] for line in groups)["models/flux"] >= 2  # without the adapter, and with it
    done = run_program("run", *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["id"]: row for row in manifest_rows(place / "shots")}
    assert {row["id"]: row["model"]["id"] for row in rows.values()} == {shot[0]: shot[1] for shot in SHOTS}
    for shot in SHOTS:
        file = rows[shot[0]]["files"][0]
        assert (file["width"], file["height"]) == (shot[6], shot[7])
    (place / "shots" / "050-insert.png").unlink()
    repaired = run_program("run", *settings, "--print", "paths")
    assert repaired.stdout.splitlines() == ["shots/050-insert.png"]
    verified = run_program("verify", "shots", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert {line["word"] for line in map(json.loads, verified.stdout.splitlines())} == {"bit-exact"}
