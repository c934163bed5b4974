"""The benches behind `omni-gen bench`: what is asked, run, printed and written."""

import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from omni_cli.api.session import Session
from omni_cli.bench.arms import chosen
from omni_cli.bench.engine import engine_table, run_engine_bench
from omni_cli.bench.figures import write_trace
from omni_cli.bench.load import Counts, size_of
from omni_cli.bench.plot import check_plot, write_plot
from omni_cli.bench.run import Outcome, run_bench
from omni_cli.bench.table import render
from omni_cli.bench.transport import (
    CLIPS,
    REPEATS,
    TransportJob,
    clip_of,
    run_transport_bench,
    transport_table,
    write_json,
)
from omni_cli.cli.defaults import checked_defaults
from omni_cli.config import EngineConfig, ModelConfig, RunConfig, VideoOutputTransport, output_timeout
from omni_cli.errors import UsageError


def end_to_end(given: Mapping[str, Any]) -> None:
    """The bench of whole runs, from the values of the command's parameters. Raises typer.Exit(1) if the pictures differ."""
    width, height = size_of(given["resolution"])
    named = ("num_frames", "num_inference_steps", "guidance_scale", "fps")
    fields = checked_defaults(
        width=width, height=height, format=given["format_"], **{name: given[name] for name in named}
    )
    specs = chosen(given["arms"], given["batch_size"])
    _check_files(given["json"], given["plot"], given["trace"])
    postprocess = given["device_postprocess"] is not False
    config = RunConfig(
        model=ModelConfig(model=given["model"], device=given["device"], dtype=given["dtype"]),
        engine=EngineConfig(
            batch_size=given["batch_size"],
            output_timeout=output_timeout(),
            transport=VideoOutputTransport(enable_device_postprocess=postprocess),
        ),
    )
    counts = Counts(given["requests"], given["rounds"])
    with _interruptible(), _folder(given["output_dir"]) as folder:
        outcome = run_bench(config, fields, specs, counts, folder, Session, _say)
    typer.echo(render(outcome.report), nl=False)
    _write_files(outcome, given["json"], given["plot"], given["trace"])
    if not outcome.report.outputs_equal:
        raise typer.Exit(1)


def engine_alone(requests: int, json: Path | None) -> None:
    """The bench of the engine with nothing to run."""
    _check_files(json, None, None)
    with _interruptible():
        reports = run_engine_bench(requests, Session, _say)
    typer.echo(engine_table(reports), nl=False)
    if json is not None:
        write_json(json, {"schema_version": 1, "paths": reports})


def transport_alone(clips: list[str] | None, repeats: int | None, device: str, json: Path | None) -> None:
    """The bench of the way from a tensor to an encoder. Raises typer.Exit(1) if the levels are apart."""
    _check_files(json, None, None)
    wanted = tuple(clip_of(text) for text in clips or CLIPS)
    job = TransportJob(clips=wanted, repeats=repeats or REPEATS, device=device)
    with _interruptible():
        reports = run_transport_bench(job, _say)
    typer.echo(transport_table(reports), nl=False)
    if json is not None:
        write_json(json, {"schema_version": 1, "cases": reports})
    if any(report.levels_apart > 1 for report in reports):
        raise typer.Exit(1)


def _say(line: str) -> None:
    typer.echo(f"omni-gen bench: {line}", err=True)


def _check_files(json: Path | None, plot: Path | None, trace: Path | None) -> None:
    """What is to be written can be written: told before minutes are spent."""
    for flag, path in (("--json", json), ("--plot", plot), ("--trace", trace)):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise UsageError(f"{flag} {path}: must be a file in a folder that exists")
    if plot is not None:
        check_plot(plot)


def _write_files(outcome: Outcome, json: Path | None, plot: Path | None, trace: Path | None) -> None:
    if json is not None:
        write_json(json, outcome.report)
    if trace is not None:
        last = {name: rounds[-1] for name, rounds in outcome.measured.rounds.items()}
        write_trace(trace, last, outcome.measured.ready)
    if plot is not None:
        write_plot(plot, outcome)


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """Where the arms' folders go."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="omni-gen-bench-") as folder:
        yield Path(folder)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the processes and remove what is temporary before this process leaves with 130 or 143."""

    def leave(number: int, frame: Any) -> None:
        raise typer.Exit(128 + number)

    old = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
