"""`OmniGen`: the same engine for Python programs, its settings from named arguments or a RunConfig."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from omni_cli.api import OmniGen
from omni_cli.cli.app import app
from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, PromptsConfig, RunConfig, VideoOutputTransport
from omni_cli.errors import OutputFolderError, PromptFileError, UsageError
from omni_cli.events import AnyEvent, OutputArrived
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


def test_strings_mappings_and_requests_are_rendered(gen: OmniGen, folder: Path) -> None:
    results = list(
        gen.generate(["a", {"prompt": "b", "steps": 2, "id": "named"}, GenerationRequest(prompt="c", seed=7)])
    )
    rows = {result.request.prompt: result for result in results}
    assert [rows[prompt].status for prompt in "abc"] == ["done"] * 3
    assert rows["b"].id == "named"
    with Image.open(folder / f"{rows['c'].id}.png") as image:
        assert np.asarray(image).tolist() == np.full((64, 64, 3), 7).tolist()
    assert {row.id for row in read_rows(folder / "manifest.jsonl")} >= {result.id for result in results}


def test_the_output_timeout_comes_from_the_environment_unless_the_config_sets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_OMNI_ASYNC_OUTPUT_TIMEOUT", "42")
    assert OmniGen().config.engine.output_timeout == 42
    assert OmniGen(config=RunConfig(engine=EngineConfig(output_timeout=7))).config.engine.output_timeout == 7


def test_request_without_an_id_is_the_same_in_every_call_and_equal_ones_of_a_call_are_numbered(gen: OmniGen) -> None:
    (first,) = gen.generate("one more")
    assert list(gen.generate(iter(["one more"]))) == []
    (second,) = gen.generate(["one more", "one more"])
    assert second.id == f"{first.id}-2"
    assert second.seeds != first.seeds


def test_streaming_a_finished_request_again_keeps_its_other_outputs_and_names(gen: OmniGen, folder: Path) -> None:
    (done,) = gen.generate({"prompt": "x", "id": "again", "num_outputs": 2, "seed": 5})
    with gen.stream({"prompt": "x", "id": "again", "seed": 5}) as stream:
        row = stream.result()
    assert [file.path for file in row.files] == ["again-0.png", "again-1.png"]
    assert row.seeds == (5, 6)
    assert row.files[1] == done.files[1]
    (folder / "mine.png").write_bytes(b"mine")
    with gen.stream({"prompt": "x", "id": "mine"}) as stream:
        assert stream.result().files[0].path.startswith("mine~")
    assert (folder / "mine.png").read_bytes() == b"mine"


@pytest.mark.parametrize("wrap", [list, iter])
def test_changed_request_is_refused_and_its_file_kept(gen: OmniGen, folder: Path, wrap: Any) -> None:
    name = f"kept-{wrap.__name__}"
    (done,) = gen.generate({"prompt": "x", "id": name, "seed": 1})
    before = (folder / done.files[0].path).read_bytes()
    with pytest.raises(UsageError, match=rf'"{name}": prompt: "x" → "y"; seed: 1 → 2'):
        list(gen.generate(wrap([{"prompt": "y", "id": name, "seed": 2}])))
    with pytest.raises(UsageError, match="changed since"):
        gen.stream({"prompt": "y", "id": name, "seed": 2})
    assert (folder / done.files[0].path).read_bytes() == before


def test_every_problem_of_a_list_is_raised_before_anything_is_rendered(gen: OmniGen, folder: Path) -> None:
    before = len(list(read_rows(folder / "manifest.jsonl")))
    bad: list[Any] = [
        "good",
        {"promt": "x"},
        {"prompt": "x", "height": 0},
        {"prompt": "x", "guidance_scale": float("nan")},
    ]
    with pytest.raises(PromptFileError) as caught:
        list(gen.generate(bad))
    fields = [problem.field or problem.cause for problem in caught.value.problems]
    assert fields == ['unknown field "promt"', "height", "guidance_scale"]
    assert len({problem.source for problem in caught.value.problems}) == 3
    assert len(list(read_rows(folder / "manifest.jsonl"))) == before


def test_a_generator_is_consumed_as_the_run_goes_on(gen: OmniGen) -> None:
    read: list[int] = []

    def endless() -> Iterator[str]:
        for number in range(10_000):
            read.append(number)
            yield f"prompt {number}"

    for count, result in enumerate(gen.generate(endless()), 1):
        assert result.status == "done"
        if count == 5:
            break
    assert 5 <= len(read) < 100


def test_a_second_object_on_the_same_folder_is_refused(gen: OmniGen, folder: Path) -> None:
    with pytest.raises(OutputFolderError), OmniGen(output_dir=str(folder), config=CONFIG):
        pass


@pytest.mark.parametrize(
    "transport", [{"enable_device_postprocess": False}, VideoOutputTransport(enable_device_postprocess=False)]
)
def test_video_output_transport_switches_the_device_postprocess_off(tmp_path: Path, transport: Any) -> None:
    seen: list[AnyEvent] = []
    with OmniGen(
        output_dir=str(tmp_path), config=CONFIG, video_output_transport=transport, observer=seen.append
    ) as gen:
        (result,) = gen.generate({"prompt": "x", "seed": 9})
    assert [event.bytes for event in seen if isinstance(event, OutputArrived)] == [64 * 64 * 3 * 4]
    with Image.open(tmp_path / result.files[0].path) as image:
        assert set(np.asarray(image).ravel().tolist()) == {9}


ARGUMENTS: list[tuple[str, Any, Any, RunConfig, RunConfig]] = [
    # argument, its value, how the message shows the config's value, a config that contradicts it, the merged config
    ("model", "demo", "'other'", RunConfig(model=ModelConfig(model="other")), RunConfig()),
    (
        "device", "cpu", "'cuda'",
        RunConfig(model=ModelConfig(device="cuda")), RunConfig(model=ModelConfig(device="cpu")),
    ),
    (
        "dtype", "float32", "'float16'",
        RunConfig(model=ModelConfig(dtype="float16")), RunConfig(model=ModelConfig(dtype="float32")),
    ),
    (
        "output_dir", "mine", "'other'",
        RunConfig(output=OutputConfig(output_dir="other")), RunConfig(output=OutputConfig(output_dir="mine")),
    ),
    ("batch_size", 1, "'auto'", RunConfig(engine=EngineConfig(batch_size=0)), RunConfig()),
    (
        "batch_size", "auto", "4",
        RunConfig(engine=EngineConfig(batch_size=4)), RunConfig(engine=EngineConfig(batch_size=0)),
    ),
    ("async_output", True, "False", RunConfig(engine=EngineConfig(async_output=False)), RunConfig()),
    (
        "video_output_transport", VideoOutputTransport(), "VideoOutputTransport(enable_device_postprocess=False)",
        RunConfig(engine=EngineConfig(transport=VideoOutputTransport(enable_device_postprocess=False))), RunConfig(),
    ),
    ("seed", 0, "5", RunConfig(seed=5), RunConfig()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "shown", "config", "merged"), ARGUMENTS, ids=lambda value: str(value)[:20])
def test_an_argument_that_contradicts_the_config_is_refused(
    name: str, value: Any, shown: str, config: RunConfig, merged: RunConfig
) -> None:
    with pytest.raises(UsageError) as caught:
        OmniGen(**{name: value}, config=config)
    message = str(caught.value)
    assert message.startswith(f"{name}={value!r} contradicts config.")
    assert f"={shown}: leave out the argument" in message


@pytest.mark.parametrize(("name", "value", "shown", "config", "merged"), ARGUMENTS, ids=lambda value: str(value)[:20])
def test_an_argument_fills_in_what_the_config_leaves_at_its_default(
    name: str, value: Any, shown: str, config: RunConfig, merged: RunConfig
) -> None:
    assert OmniGen(**{name: value}, config=RunConfig()).config == merged
    assert OmniGen(**{name: value}, config=merged).config == merged
    assert OmniGen(config=config).config == config


def test_every_contradiction_is_named_at_once() -> None:
    config = RunConfig(model=ModelConfig(model="other"), seed=5)
    with pytest.raises(UsageError) as caught:
        OmniGen("demo", seed=4, config=config)
    assert [line.partition(" contradicts ")[2].partition(":")[0] for line in str(caught.value).splitlines()] == [
        "config.model.model='other'",
        "config.seed=5",
    ]


def test_an_unknown_transport_key_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="enable_device_postproces"):
        OmniGen(video_output_transport={"enable_device_postproces": True})


def test_closing_leaves_no_thread_and_no_extra_file(tmp_path: Path) -> None:
    before = {thread.name for thread in threading.enumerate()}
    with OmniGen(output_dir=str(tmp_path), config=CONFIG) as gen:
        list(gen.generate([{"prompt": "x", "id": "a"}, {"prompt": "x", "id": "b"}]))
    assert {thread.name for thread in threading.enumerate()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png", "manifest.jsonl"]


def test_requests_may_name_a_model_and_rows_record_it(tmp_path: Path) -> None:
    inline = RunConfig(engine=EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner"))
    with OmniGen(output_dir=str(tmp_path), config=inline) as gen:
        results = list(gen.generate(["a", {"prompt": "b", "model": "owner/b"}, "c"]))
    assert [(result.request.prompt, result.model.id) for result in results] == [
        ("a", "demo"), ("c", "demo"), ("b", "owner/b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "use", [lambda gen: list(gen.generate("a")), lambda gen: gen.stream("a"), lambda gen: gen.model]
)
def test_use_outside_of_a_with_block_is_a_sentence(use: Any, tmp_path: Path) -> None:
    gen = OmniGen(output_dir=tmp_path, config=CONFIG)
    with pytest.raises(UsageError, match="OmniGen is used in a with block"):
        use(gen)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seed": 1.5}, "seed=1.5: expected a whole number"),
        ({"seed": True}, "seed=True: expected a whole number"),
        ({"batch_size": "4"}, "batch_size='4': expected a whole number"),
        ({"output_dir": 3}, "output_dir=3: expected text or a path"),
    ],
)
def test_argument_of_a_wrong_type_is_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        OmniGen(**arguments)


def test_numbers_of_numpy_and_paths_are_arguments(tmp_path: Path) -> None:
    config = OmniGen(output_dir=tmp_path, seed=np.int64(7), batch_size=np.int32(2), config=CONFIG).config
    assert (config.output.output_dir, config.seed, config.engine.batch_size) == (str(tmp_path), 7, 2)
    assert type(config.seed) is int


def test_iterable_of_requests_is_expected(gen: OmniGen) -> None:
    with pytest.raises(UsageError, match="generate: expected a request or an iterable of requests, got int"):
        list(gen.generate(5))  # type: ignore[arg-type]


def test_engine_sleeps_wakes_up_by_itself_and_tells_its_health(tmp_path: Path) -> None:
    with OmniGen(output_dir=str(tmp_path), model="demo", device="cpu") as gen:
        request = {"prompt": "a red circle", "num_frames": 1, "height": 32, "width": 32, "steps": 1, "format": "npy"}
        (first,) = gen.generate({**request, "id": "a", "seed": 1})
        (health,) = gen.health()
        assert (health.inflight, health.slots) == (0, 0)
        gen.sleep()
        (second,) = gen.generate({**request, "id": "b", "seed": 1})
        gen.sleep(1)
        gen.wake_up()
        gen.sleep(level=2)
        assert gen.health() == ()
        (third,) = gen.generate({**request, "id": "c", "seed": 1})
        assert len(gen.health()) == 1
        assert first.files[0].sha256 == second.files[0].sha256 == third.files[0].sha256


def test_sleep_is_refused_while_requests_are_rendered(tmp_path: Path) -> None:
    with OmniGen(output_dir=str(tmp_path), config=CONFIG) as gen:
        rows = gen.generate([{"prompt": "x", "id": str(n)} for n in range(3)])
        next(rows)
        with pytest.raises(UsageError, match="requests are being rendered"):
            gen.sleep()
        list(rows)
        with gen.stream({"prompt": "y", "steps": 3}) as stream:
            with pytest.raises(UsageError, match="requests are being rendered"):
                gen.sleep(2)
            stream.result()
        with pytest.raises(UsageError, match="level 3: expected 1"):
            gen.sleep(3)
        gen.sleep(2)
        assert [row.status for row in gen.generate("after")] == ["done"]


def test_matrix_and_repetitions_of_the_config_make_requests_of_their_own(tmp_path: Path) -> None:
    config = RunConfig(
        engine=EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner"),
        output=OutputConfig(output_dir=str(tmp_path)),
        prompts=PromptsConfig(expand="all", matrix={"guidance_scale": [3, 5]}, repeat=2),
    )
    with OmniGen(config=config) as gen:
        results = list(gen.generate(["a {red|blue} circle", {"prompt": "b", "id": "named"}]))
        assert list(gen.generate("a {red|blue} circle")) == []
        with pytest.raises(PromptFileError, match=r"requests\[4\]: prompt: a { without its } \(character 3\)"):
            list(gen.generate(["a", "b {c"]))
        with pytest.raises(UsageError, match=r"stream: .* 4 requests"):
            gen.stream("x")
    assert [result.status for result in results] == ["done"] * 12
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "a {red|blue} circle"}\n{"prompt": "b", "id": "named"}\n')
    flags = ["--expand", "all", "--matrix", "guidance_scale=3,5", "--repeat"]
    for repeat, exit_code, shown in (("2", 0, "0 missing of 12"), ("3", 1, "6 missing of 18")):
        status = CliRunner().invoke(app, ["status", str(tmp_path), str(prompts), *flags, repeat])
        assert (status.exit_code, shown in status.output) == (exit_code, True), status.output
    assert len({result.id for result in results}) == len({result.index for result in results}) == 12
    assert {result.id for result in results if result.request.prompt == "b"} == {
        "named-guidance_scale-3", "named-guidance_scale-3-2", "named-guidance_scale-5", "named-guidance_scale-5-2",
    }  # fmt: skip
