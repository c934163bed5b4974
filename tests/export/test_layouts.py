"""Layouts: what the evaluators' own readers look for is there. Their rules are stated again here."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omni_cli.api.run_file import run_file
from omni_cli.api.session import Session
from omni_cli.cli.run import run
from omni_cli.cli.run_config import read_options, run_config
from omni_cli.config import LayoutName
from omni_cli.errors import OmniGenError, UsageError
from omni_cli.export.layouts import LAYOUTS, layout_defaults
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import GenerationRequest
from omni_cli.trace import Timeline

VBENCH = [
    {"prompt_en": "a red circle, by Hokusai, in the style of Ukiyo.", "dimension": ["color"]},
    {"prompt_en": "A 3D model of a 1800s victorian house.", "dimension": ["scene"], "auxiliary_info": {"scene": {}}},
]
GENEVAL = [
    {"tag": "single_object", "include": [{"class": "circle", "count": 1}], "prompt": "a photo of a circle"},
    {"tag": "counting", "include": [{"class": "square", "count": 2}], "exclude": [], "prompt": "a photo of squares"},
]
CAPTIONS = [
    {"file_name": "1.png", "text": "a circle", "id": "one", "rating": 5, "tags": ["a"], "ref_file_name": "x.png"},
    {"text": "a square", "id": "sub/two", "rating": "high", "num_outputs": 2},
]

Render = Callable[..., Path]


@pytest.fixture
def render(tmp_path: Path) -> Render:
    """Return a function that runs a list with a layout, as the command line does, and returns the output folder."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}

    def render(rows: list[dict[str, Any]], layout: LayoutName, fields: tuple[str, ...] = (), **flags: Any) -> Path:
        prompts = tmp_path / "prompts.json"
        prompts.write_text(json.dumps(rows), encoding="utf-8")
        null = {"runner": "omni_cli.worker.null:NullRunner", "executor": "inline", "output_dir": tmp_path / "out"}
        config = run_config({**defaults, **null, "layout": layout, **flags})
        options = read_options(None, None, fields, "error", layout)
        source = PromptSource(str(prompts), config.defaults, options=options)
        with source, Session(config, lambda event: None, Timeline(), base=source.base) as session:
            assert run_file(session, source) == 0
        return tmp_path / "out"

    return render


def vbench_videos(folder: Path, full_info: list[dict[str, Any]]) -> list[list[str]]:
    """Return the videos that `VBench.build_full_info_json` finds for each prompt: five names in a flat folder."""
    names = [path.name for path in folder.iterdir()]
    postfix = Path(names[0]).suffix
    wanted = [[f"{entry['prompt_en']}-{number}{postfix}" for number in range(5)] for entry in full_info]
    return [[name for name in of_prompt if name in names] for of_prompt in wanted]


def geneval_samples(folder: Path) -> list[tuple[dict[str, Any], list[str]]]:
    """Return what `evaluate_images.py` evaluates: metadata and pictures of the folders that are called by digits."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name.isdigit():
            metadata = json.loads((path / "metadata.jsonl").read_text())
            samples = [one.name for one in (path / "samples").iterdir() if re.match(r"\d+\.png", one.name)]
            found.append((metadata, sorted(samples)))
    return found


def dataset_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the samples of ImageFolder: a line per file, equal columns of one type, and no other column is a file."""
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
    columns = list(rows[0])
    assert all(list(row) == columns for row in rows)
    assert not [name for name in columns if name != "file_name" and re.search(r"file_names?$", name)]
    for name in columns:
        kinds = {type(row[name]) for row in rows if row[name] is not None}
        assert len(kinds - {int} if kinds == {int, float} else kinds) <= 1, name
    named = {row["file_name"] for row in rows}
    media = [path for path in folder.rglob("*") if path.suffix in (".png", ".mp4")]
    assert named == {path.relative_to(folder).as_posix() for path in media}
    return rows


def test_vbench_finds_five_videos_of_every_prompt(render: Render) -> None:
    folder = render(VBENCH, "vbench", num_frames=2)
    assert [len(names) for names in vbench_videos(folder / "videos", VBENCH)] == [5, 5]
    assert len(list((folder / "videos").iterdir())) == 10


def test_geneval_finds_four_pictures_and_the_row_of_every_prompt(render: Render) -> None:
    folder = render(GENEVAL, "geneval")
    assert geneval_samples(folder) == [(row, [f"000{number}.png" for number in range(4)]) for row in GENEVAL]


def test_a_hugging_face_dataset_has_a_line_per_file(render: Render) -> None:
    folder = render(CAPTIONS, "hf-dataset", ("prompt=text",))
    rows = dataset_rows(folder / "train")
    assert [row["text"] for row in rows] == ["a circle", "a square", "a square"]
    assert [row["rating"] for row in rows] == ["5", "high", "high"]
    assert [row["filename"] for row in rows] == ["1.png", None, None]
    assert rows[0]["ref_filename"] == "x.png"


def test_metadata_is_complete_after_a_second_run_and_names_no_file_that_is_gone(render: Render) -> None:
    folder = render(CAPTIONS[:1], "hf-dataset", ("prompt=text",))
    (folder / "train" / "one.png").unlink()
    (folder / "train" / "metadata.jsonl").unlink()
    render(CAPTIONS[1:], "hf-dataset", ("prompt=text",))
    assert [row["id"] for row in dataset_rows(folder / "train")] == ["sub/two", "sub/two"]
    render(CAPTIONS, "hf-dataset", ("prompt=text",))
    assert {row["id"] for row in dataset_rows(folder / "train")} == {"one", "sub/two"}


def test_shards_of_one_folder_write_the_metadata_of_all(render: Render) -> None:
    captions = [{"text": f"circle {number}", "id": str(number)} for number in range(6)]
    for shard in ("0/2", "1/2"):
        folder = render(captions, "hf-dataset", ("prompt=text",), shard_=shard)
    assert sorted(row["id"] for row in dataset_rows(folder / "train")) == [str(number) for number in range(6)]


@pytest.mark.parametrize(
    ("row", "layout", "message"),
    [
        ({"prompt": "x"}, "vbench", "format: png is not read by --layout vbench; it reads mp4, webm"),
        ({"prompt": "x", "output": "y.mp4", "num_frames": 2}, "vbench", "output: --layout vbench names the files"),
        ({"prompt": "a/b", "num_frames": 2}, "vbench", 'prompt: "a/b" cannot be part of a file name as it is'),
        ({"prompt": ".a", "num_frames": 2}, "vbench", "begins with no dot"),
        ({"prompt": "w" * 300, "num_frames": 2}, "vbench", "a name has at most 191 bytes"),
        ({"prompt": "x"}, "geneval", "meta: has no tag, which --layout geneval writes beside the files"),
        ({"prompt": "x", "tag": "y", "format": "jpeg"}, "geneval", "format: jpeg is not read by --layout geneval"),
        ({"prompt": "x", "format": "npy"}, "hf-dataset", "format: npy is not read by --layout hf-dataset"),
    ],
)
def test_what_an_evaluator_would_not_find_is_a_mistake(
    render: Render, tmp_path: Path, row: dict[str, Any], layout: LayoutName, message: str
) -> None:
    with pytest.raises(OmniGenError) as caught:
        render([row], layout)
    assert message in str(caught.value)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix in (".png", ".mp4", ".npy")]


def test_a_prompt_of_any_letters_that_names_take_is_the_name(render: Render) -> None:
    prompts = ["it's 50% off, isn't it? no: #1".replace("?", "").replace(":", ""), "一只猫", "a (b) [c] {d} & e; f"]
    folder = render([{"prompt": prompt} for prompt in prompts], "vbench", num_frames=2, num_outputs=1)
    assert {path.stem for path in (folder / "videos").iterdir()} == {f"{prompt}-0" for prompt in prompts}


def test_a_layout_names_the_files_alone(render: Render) -> None:
    with pytest.raises(UsageError, match="--layout geneval names the files: leave --name-template out"):
        render(GENEVAL, "geneval", name_template="{seed}")


def test_a_flag_wins_over_the_layout_and_columns_of_the_user_over_its_own() -> None:
    flags = GenerationRequest(num_outputs=1)
    assert layout_defaults("geneval", flags) == GenerationRequest(num_outputs=1, num_frames=1, format="png")
    assert layout_defaults(None, flags) == flags
    assert read_options(None, None, ["prompt=caption"], "ignore", "vbench").columns.fields == {"caption": "prompt"}
    assert read_options(None, None, [], "error", "vbench").columns.extra == "keep"
    assert set(LAYOUTS) == {"vbench", "geneval", "hf-dataset"}
