"""A request rendered step by step with a real worker, in both step modes: steps, decisions, rows."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from omni_cli.api import OmniGen
from omni_cli.config import EngineConfig, RunConfig
from omni_cli.errors import UsageError
from omni_cli.events import AnyEvent, PreviewWritten
from omni_cli.executor.step_controller import Latents
from omni_cli.journal import read_rows

NULL = "omni_cli.worker.null:NullRunner"
REQUEST = {"prompt": "x", "steps": 4, "seed": 9}


@pytest.fixture(scope="module", params=[True, False], ids=["async", "pure"])
def gen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OmniGen]:
    config = RunConfig(engine=EngineConfig(runner=NULL, step_execution=True, async_output=request.param))
    with OmniGen(output_dir=str(tmp_path_factory.mktemp("stream")), config=config) as gen:
        yield gen
        left = gen.stream(REQUEST)
        steps = left.steps()  # kept alive: leaving the loop would let the remaining steps run
        next(steps)
        left.pause()
    assert left.result().status == "cancelled", "a stream that is open at the end is cancelled"
    assert {thread.name for thread in threading.enumerate()} & {"result-pump", "writer_0"} == set()


def folder(gen: OmniGen) -> Path:
    return Path(gen.config.output.output_dir)


def test_every_step_is_yielded_before_the_row_with_its_file(gen: OmniGen) -> None:
    stream = gen.stream(REQUEST, latents=True)
    steps = list(stream.steps())
    assert [(step.step, step.total, step.timestep) for step in steps] == [(1, 4, 3), (2, 4, 2), (3, 4, 1), (4, 4, 0)]
    assert steps[1].latents == Latents((1, 4, 2, 2), np.full(16, 2, "float32").tobytes())
    result = stream.result()
    assert (result.status, result.notes, stream.result()) == ("done", (), result)
    with Image.open(folder(gen) / result.files[0].path) as image:
        assert set(np.asarray(image).ravel()) == {9}


def test_the_result_pump_runs_only_with_async_output(gen: OmniGen) -> None:
    with gen.stream(REQUEST) as stream:
        next(stream.steps())
        names = {thread.name for thread in threading.enumerate()}
        assert ("result-pump" in names) is gen.config.engine.async_output


def test_cancelling_in_the_loop_ends_it_with_a_cancelled_row_without_files(gen: OmniGen) -> None:
    stream, seen = gen.stream({**REQUEST, "id": f"given-up-{gen.config.engine.async_output}"}), []
    for step in stream.steps():
        seen.append(step.step)
        if step.step == 2:
            stream.cancel()
    assert seen == [1, 2]
    assert (stream.result().status, stream.result().files) == ("cancelled", ())
    assert stream.id not in {row.id for row in read_rows(folder(gen) / "manifest.jsonl")}


def test_stopping_in_the_loop_decodes_a_picture_with_another_fingerprint(gen: OmniGen) -> None:
    request = {**REQUEST, "id": "enough"}
    stream, seen = gen.stream(request), []
    for step in stream.steps():
        seen.append(step.step)
        if step.step == 2:
            stream.stop()
    result = stream.result()
    assert seen == [1, 2]
    assert result.status == "done"
    assert result.fingerprint.endswith("-stopped-at-2")
    assert (folder(gen) / result.files[0].path).is_file()


def test_a_paused_loop_waits_until_another_thread_resumes_it(gen: OmniGen) -> None:
    stream, seen = gen.stream(REQUEST), []
    resumed = threading.Event()

    def resume() -> None:
        resumed.set()
        stream.resume()

    timer = threading.Timer(0.3, resume)
    for step in stream.steps():
        if step.step == 2:
            stream.pause()
            timer.start()
        if step.step == 3:
            seen.append(resumed.is_set())
    timer.join()
    assert seen == [True]
    assert stream.result().status == "done"


def test_cancelling_while_paused_ends_the_loop(gen: OmniGen) -> None:
    stream = gen.stream(REQUEST)
    timer = threading.Timer(0.1, stream.cancel)
    for step in stream.steps():
        assert step.step == 1
        stream.pause()
        timer.start()
    timer.join()
    assert stream.result().status == "cancelled"


def test_leaving_the_loop_lets_the_remaining_steps_run(gen: OmniGen) -> None:
    stream = gen.stream(REQUEST)
    for _ in stream.steps():
        break
    assert stream.result().status == "done"


def test_a_result_needs_no_loop_and_generate_works_after_streams(gen: OmniGen) -> None:
    assert gen.stream(REQUEST).result().status == "done"
    assert [result.status for result in gen.generate(["a", "b"])] == ["done", "done"]


def test_an_exception_in_the_block_cancels_the_request(gen: OmniGen) -> None:
    def fail() -> None:
        with gen.stream(REQUEST) as stream:
            streams.append(stream)
            next(stream.steps())
            raise KeyError("mine")

    streams = []
    with pytest.raises(KeyError, match="mine"):
        fail()
    assert streams[0].result().status == "cancelled"


def test_contradicting_engine_settings_are_refused_at_once(tmp_path: Path) -> None:
    engine = EngineConfig(step_execution=True, async_output=False, workers=2)
    with pytest.raises(UsageError, match="--workers 2: --step-execution with --no-async runs one call at a time"):
        OmniGen(output_dir=str(tmp_path), config=RunConfig(engine=engine))


def test_step_mode_gives_the_same_pixels_and_previews_that_resemble_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out, previews = tmp_path / "out", dict[int, np.ndarray[Any, Any]]()

    def observe(event: AnyEvent) -> None:
        if isinstance(event, PreviewWritten):
            with Image.open(out / event.path) as image:
                previews[event.step] = np.asarray(image)

    request = {"prompt": "a red circle moving right on a blue background", "seed": 3, "num_frames": 1, "steps": 4}
    config = RunConfig(engine=EngineConfig(preview_every=1))
    with OmniGen(output_dir=str(out), config=config, observer=observe) as gen:
        stream = gen.stream({**request, "id": "steps"})
        sigmas = [step.sigma for step in stream.steps()]
        stream.result()
        (whole,) = gen.generate({**request, "id": "whole"})
    assert sigmas[-1] == 0
    assert sigmas == sorted(sigmas, reverse=True)  # type: ignore[type-var]
    with Image.open(out / "steps.png") as one, Image.open(out / whole.files[0].path) as other:
        picture = np.asarray(one)
        assert picture.tobytes() == np.asarray(other).tobytes()
    best = max(np.corrcoef(preview.ravel(), picture.ravel())[0, 1] for preview in previews.values())
    assert best > 0.8
    assert sorted(path.name for path in out.glob("*.png")) == ["steps.png", "whole.png"]
