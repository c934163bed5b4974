"""The engine starts as soon as a forward is certain, and not before."""

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omni_cli.api import run_file as module
from omni_cli.api import session as session_module
from omni_cli.api.run_file import run_file
from omni_cli.api.session import Session
from omni_cli.config import EngineConfig, ExecutorName, ModelConfig, OutputConfig, RunConfig, Tuning
from omni_cli.errors import EngineError
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import OutputFile, PlannedRequest, Result, to_json
from omni_cli.trace import Timeline

DONE = 4


class StartedHere(EngineError):
    """Raised in place of starting worker processes."""


Run = Callable[..., tuple[str, int | None]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models whose weights were read ahead."""
    models: list[str] = []
    monkeypatch.setattr(session_module, "read_ahead_weights", lambda model, variant: models.append(model.model))
    return models


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]) -> Run:
    """Return a function that runs `prompts` on a folder where DONE are finished, and tells when the engine starts.

    The phase is "check", "open", "compare" or "render"; "never" comes with the exit code.
    """
    out = tmp_path / "out"
    phase = ["check"]

    def start(*args: Any, **more: Any) -> None:
        raise StartedHere(phase[0])

    monkeypatch.setattr(session_module, "make_executor", start)

    def enter(name: str, owner: type, method: str) -> None:
        original = getattr(owner, method)

        def entered(*args: Any, **more: Any) -> Any:
            phase[0] = name
            return original(*args, **more)

        monkeypatch.setattr(owner, method, entered)

    enter("open", Session, "open_folder")
    enter("compare", Session, "check_finished_work")
    enter("render", Session, "render")

    def run(
        prompts: list[str], executor: ExecutorName = "local", scheduler: str | None = None, overwrite: bool = False
    ) -> tuple[str, int | None]:
        path = tmp_path / "prompts.jsonl"
        path.write_text("".join(json.dumps({"id": text, "prompt": text}) + "\n" for text in prompts))
        phase[0] = "check"
        config = RunConfig(
            model=ModelConfig(device="cpu", tuning=Tuning(scheduler=scheduler)),
            engine=EngineConfig(executor=executor),
            output=OutputConfig(output_dir=str(out), overwrite=overwrite),
        )
        with (
            PromptSource(str(path), config.defaults) as source,
            Session(config, lambda event: None, Timeline(), base=source.base) as session,
        ):
            if not out.exists():
                out.mkdir()
                finish(out, session, list(session.planner().plan_all(source.rows())))
            try:
                return "never", run_file(session, source)
            except StartedHere as here:
                return str(here), None
            finally:
                for thread in threading.enumerate():
                    if thread.name == "read-ahead":
                        thread.join()

    assert run(texts(DONE)) == ("never", 0), "what is finished is planned without an engine"
    return run


def texts(count: int) -> list[str]:
    return [f"a red circle {number}" for number in range(count)]


def finish(out: Path, session: Session, planned: list[PlannedRequest]) -> None:
    """Write the files and rows of `planned` as a run would have."""
    rows = []
    for request in planned:
        data = request.id.encode()
        (out / request.files[0]).write_bytes(data)
        file = OutputFile(
            path=request.files[0],
            sha256=hashlib.sha256(data).hexdigest(),
            bytes=len(data),
            width=64,
            height=64,
            frames=9,
        )
        rows.append(
            Result(
                id=request.id,
                index=request.index,
                status="done",
                files=(file,),
                seeds=request.seeds,
                request=request.request,
                fingerprint=request.fingerprint,
                model=session.models.info_of(request.request),
            )
        )
    (out / "manifest.jsonl").write_bytes(b"".join(to_json(row) + b"\n" for row in rows))


@pytest.mark.parametrize("executor", ["local", "inline"])
@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_run_with_nothing_to_do_never_starts_it(
    run: Run, read: list[str], monkeypatch: pytest.MonkeyPatch, executor: ExecutorName, seconds: float
) -> None:
    monkeypatch.setattr(module, "CHECK_ALONE_S", seconds)
    assert run(texts(DONE), executor=executor) == ("never", 0)
    assert run(texts(2), executor=executor) == ("never", 0)
    assert read == []


def test_a_long_check_starts_it_once_there_are_more_requests_than_rows(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(texts(2 * DONE)) == ("open", None), "a short check starts nothing for a file with a mistake"
    monkeypatch.setattr(module, "CHECK_ALONE_S", 0.0)
    assert run(texts(2 * DONE)) == ("check", None)


def test_a_change_in_a_finished_list_starts_it_when_it_is_found(run: Run, tmp_path: Path) -> None:
    assert run([*texts(2), "a new prompt"]) == ("compare", None)
    (file, *_) = (tmp_path / "out").glob("*.mp4")
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"?")
    assert run(texts(DONE)) == ("render", None), "files of the same size are hashed while rendering"
    file.unlink()
    assert run(texts(DONE)) == ("compare", None)


def test_everything_is_missing_in_an_empty_folder_and_with_overwrite(run: Run, read: list[str], tmp_path: Path) -> None:
    assert run(texts(DONE), overwrite=True) == ("open", None)
    assert read == ["demo"], "while the workers import the libraries"
    (tmp_path / "out" / "manifest.jsonl").unlink()
    assert run(texts(1)) == ("open", None)


def test_a_model_that_files_do_not_tell_is_asked_of_the_engine(run: Run) -> None:
    assert run(texts(DONE), scheduler="UniPCMultistepScheduler") == ("open", None)
