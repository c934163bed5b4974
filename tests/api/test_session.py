"""A session opens only what is asked for, and closes it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from omni_cli.api.session import Session
from omni_cli.config import EngineConfig, OutputConfig, RunConfig
from omni_cli.cores import usable_cores
from omni_cli.errors import Diagnostic, OutputFolderError, UsageError
from omni_cli.events import AnyEvent, ModelReady, Note
from omni_cli.prompts.objects import validate_object
from omni_cli.trace import Timeline

NULL = "omni_cli.worker.null:NullRunner"


def config_for(folder: Path, runner: str = NULL) -> RunConfig:
    return RunConfig(
        engine=EngineConfig(executor="inline", runner=runner), output=OutputConfig(output_dir=str(folder / "out"))
    )


@pytest.fixture
def events() -> list[AnyEvent]:
    return []


@pytest.fixture
def session(tmp_path: Path, events: list[AnyEvent]) -> Iterator[Session]:
    with Session(config_for(tmp_path), events.append, Timeline()) as session:
        yield session


def loads(events: list[AnyEvent]) -> int:
    return sum(isinstance(event, ModelReady) for event in events)


def test_entering_a_session_opens_no_folder(session: Session, tmp_path: Path) -> None:
    assert not (tmp_path / "out").exists()


def test_an_open_folder_is_locked_until_the_session_ends(tmp_path: Path) -> None:
    with (
        Session(config_for(tmp_path), lambda event: None, Timeline()) as first,
        Session(config_for(tmp_path), lambda event: None, Timeline()) as second,
    ):
        first.open_folder()
        with pytest.raises(OutputFolderError):
            second.open_folder()
    with Session(config_for(tmp_path), lambda event: None, Timeline()) as third:
        third.open_folder()


def test_models_are_identified_without_loading_weights(session: Session, events: list[AnyEvent]) -> None:
    session.start_engine(load=False)
    facts = session.models.facts(None)
    assert facts.info is not None
    assert loads(events) == 0
    assert session.wait_until_loaded().info == facts.info
    assert session.wait_until_loaded().info == facts.info
    assert loads(events) == 1, "a model is loaded once"


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_model_that_only_loading_identifies_is_loaded_except_in_a_dry_run(tmp_path: Path, dry_run: bool) -> None:
    events: list[AnyEvent] = []
    config = config_for(tmp_path, "tests.runners:Secretive")
    with Session(config, events.append, Timeline(), dry_run=dry_run) as session:
        if dry_run:
            with pytest.raises(UsageError, match="known only once its weights are loaded"):
                session.models.facts(None)
        else:
            assert session.models.facts(None).info is not None
    assert loads(events) == (not dry_run)


@pytest.mark.skipif(usable_cores() < 2, reason="one usable core has one worker")
@pytest.mark.parametrize(
    ("calls", "workers", "expected"), [(4, "auto", 1), (20, "auto", 2), (20, 1, 1), (4, 2, 2)], ids=str
)
def test_as_many_workers_start_as_the_calls_are_worth_and_the_run_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int, workers: int | Literal["auto"], expected: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(usable_cores() // 2))
    events: list[AnyEvent] = []
    engine = EngineConfig(runner=NULL, workers=workers)
    config = RunConfig(engine=engine, output=OutputConfig(output_dir=str(tmp_path / "out")))
    with Session(config, events.append, Timeline()) as session:
        session.open_folder()
        planner = session.planner()
        requests = [{"prompt": "a dot", "id": str(number)} for number in range(calls)]
        rows = [row for number in range(calls) for row in validate_object(requests[number], number, config.defaults)]
        planned = [planner.plan(row) for row in rows if not isinstance(row, Diagnostic)]
        session.expected = len(planned)
        assert [result.status for result in session.render(planned)] == ["done"] * calls
        assert session.workers == expected
    said = [event.text for event in events if isinstance(event, Note)]
    assert len(said) == (workers == "auto")
    assert all(text.startswith(f"{expected} worker") and "small requests" in text for text in said)


@pytest.mark.parametrize("mode", ["async", "pure step", "stream", "inline"])
def test_every_mode_computes_with_the_same_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    events: list[AnyEvent] = []
    is_pure = mode == "pure step"
    engine = EngineConfig(
        runner=NULL,
        step_execution=is_pure,
        async_output=not is_pure,
        executor="inline" if mode == "inline" else "local",
    )
    config = RunConfig(engine=engine, output=OutputConfig(output_dir=str(tmp_path / "out")))
    with Session(config, events.append, Timeline()) as session:
        session.open_folder()
        planner = session.planner()
        (row,) = validate_object({"prompt": "a dot", "id": "a"}, 0, config.defaults)
        assert not isinstance(row, Diagnostic)
        if mode == "stream":
            with session.stream(planner.plan(row), latents=False) as stream:
                result = stream.result()
        else:
            session.expected = 1 if mode == "async" else 100
            (result,) = session.render([planner.plan(row)])
    (said,) = [event.text for event in events if isinstance(event, Note)]
    assert said.startswith("1 worker of 1 thread: ")
    assert result.made is not None
    assert result.made.threads == 1
