"""`OmniGen`: the same engine for Python programs."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from omni_cli.api import OmniGen
from omni_cli.config import EngineConfig, RunConfig, VideoOutputTransport
from omni_cli.errors import OutputFolderError, PromptFileError, UsageError
from omni_cli.events import AnyEvent, OutputReady
from omni_cli.journal import read_rows
from omni_cli.request import GenerationRequest

CONFIG = RunConfig(engine=EngineConfig(runner="omni_cli.worker.null:NullRunner"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="module")
def gen(folder: Path) -> Iterator[OmniGen]:
    with OmniGen(output_dir=str(folder), config=CONFIG) as gen:
        yield gen


def test_strings_mappings_and_requests_are_rendered_and_placed(gen: OmniGen, folder: Path) -> None:
    results = list(
        gen.generate(["a", {"prompt": "b", "steps": 2, "id": "named"}, GenerationRequest(prompt="c", seed=7)])
    )
    assert {result.id: result.status for result in results} == {"00000": "done", "named": "done", "00002": "done"}
    with Image.open(folder / "00002.png") as image:
        assert np.asarray(image).tolist() == np.full((64, 64, 3), 7).tolist()
    assert {row.id for row in read_rows(folder / "manifest.jsonl")} >= {"00000", "named", "00002"}


def test_the_environment_says_how_long_an_output_is_waited_for_unless_the_program_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_OMNI_ASYNC_OUTPUT_TIMEOUT", "42")
    assert OmniGen().config.engine.output_timeout == 42
    assert OmniGen(config=RunConfig(engine=EngineConfig(output_timeout=7))).config.engine.output_timeout == 7


def test_ids_go_on_from_call_to_call(gen: OmniGen) -> None:
    first = [result.id for result in gen.generate("one more")]
    second = [result.id for result in gen.generate("another")]
    assert int(second[0]) == int(first[0]) + 1


def test_every_problem_of_a_list_is_told_before_anything_is_rendered(gen: OmniGen, folder: Path) -> None:
    before = len(list(read_rows(folder / "manifest.jsonl")))
    bad: list[Any] = [
        "good",
        {"promt": "x"},
        {"prompt": "x", "height": 0},
        {"prompt": "x", "guidance_scale": float("nan")},
    ]
    with pytest.raises(PromptFileError) as caught:
        list(gen.generate(bad))
    fields = [problem.field or problem.message for problem in caught.value.problems]
    assert fields == ['unknown field "promt"', "height", "guidance_scale"]
    assert len({problem.source for problem in caught.value.problems}) == 3
    assert len(list(read_rows(folder / "manifest.jsonl"))) == before


def test_a_generator_is_taken_as_it_comes(gen: OmniGen) -> None:
    taken: list[int] = []

    def endless() -> Iterator[str]:
        for number in range(10_000):
            taken.append(number)
            yield f"prompt {number}"

    for count, result in enumerate(gen.generate(endless()), 1):
        assert result.status == "done"
        if count == 5:
            break
    assert 5 <= len(taken) < 100


def test_a_second_object_on_the_same_folder_is_refused(gen: OmniGen, folder: Path) -> None:
    with pytest.raises(OutputFolderError), OmniGen(output_dir=str(folder), config=CONFIG):
        pass


@pytest.mark.parametrize(
    "given", [{"enable_device_postprocess": False}, VideoOutputTransport(enable_device_postprocess=False)]
)
def test_video_output_transport_switches_the_device_postprocess_off(tmp_path: Path, given: Any) -> None:
    seen: list[AnyEvent] = []
    with OmniGen(output_dir=str(tmp_path), config=CONFIG, video_output_transport=given, observer=seen.append) as gen:
        (result,) = gen.generate({"prompt": "x", "seed": 9})
    assert [event.bytes for event in seen if isinstance(event, OutputReady)] == [64 * 64 * 3 * 4]
    with Image.open(tmp_path / result.files[0].path) as image:
        assert set(np.asarray(image).ravel().tolist()) == {9}


def test_an_unknown_transport_key_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="enable_device_postproces"):
        OmniGen(video_output_transport={"enable_device_postproces": True})


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = {thread.name for thread in threading.enumerate()}
    with OmniGen(output_dir=str(tmp_path), config=CONFIG) as gen:
        list(gen.generate(["a", "b"]))
    assert {thread.name for thread in threading.enumerate()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000.png", "00001.png", "manifest.jsonl"]


def test_requests_name_their_model_and_rows_say_which_it_was(tmp_path: Path) -> None:
    inline = RunConfig(engine=EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner"))
    with OmniGen(output_dir=str(tmp_path), config=inline) as gen:
        results = list(gen.generate(["a", {"prompt": "b", "model": "owner/b"}, "c"]))
    assert [(result.id, result.model.id) for result in results] == [
        ("00000", "demo"), ("00002", "demo"), ("00001", "owner/b"),
    ]  # fmt: skip
