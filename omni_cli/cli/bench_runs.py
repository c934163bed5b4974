"""The work of the bench commands: check the flags, run, print tables, write files."""

import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from omni_cli.api.session import Session
from omni_cli.bench.arms import select_arms
from omni_cli.bench.engine_bench import engine_table, run_engine_bench
from omni_cli.bench.figures import write_trace
from omni_cli.bench.markdown import render_markdown
from omni_cli.bench.plot import check_plot, write_plot
from omni_cli.bench.report import write_json
from omni_cli.bench.run_bench import run_bench
from omni_cli.bench.transport_bench import (
    CLIPS,
    REPEATS,
    TransportJob,
    parse_clip_size,
    run_transport_bench,
    transport_table,
)
from omni_cli.bench.workload import BenchSize, parse_resolution
from omni_cli.cli.run_config import request_defaults
from omni_cli.cli.signals import heeded_signals
from omni_cli.config import EngineConfig, ModelConfig, RunConfig, VideoOutputTransport, output_timeout
from omni_cli.errors import UsageError


def bench_arms(parameters: Mapping[str, Any]) -> None:
    """Run the bench of whole runs with the parameters of `bench`, by name.

    Raises UsageError for a flag that cannot be used, EngineError, and typer.Exit(1) if the pixels differ.
    """
    width, height = parse_resolution(parameters["resolution"])
    names = ("num_frames", "num_inference_steps", "guidance_scale", "fps")
    fields = request_defaults(
        width=width, height=height, format=parameters["format_"], **{name: parameters[name] for name in names}
    )
    specs = select_arms(parameters["arms"], parameters["batch_size"])
    json, plot, trace = parameters["json"], parameters["plot"], parameters["trace"]
    _check_files(json, plot, trace)
    postprocess = parameters["device_postprocess"] is not False
    config = RunConfig(
        model=ModelConfig(model=parameters["model"], device=parameters["device"], dtype=parameters["dtype"]),
        engine=EngineConfig(
            batch_size=parameters["batch_size"],
            output_timeout=output_timeout(),
            transport=VideoOutputTransport(enable_device_postprocess=postprocess),
        ),
    )
    size = BenchSize(parameters["requests"], parameters["rounds"])
    with _interruptible(), _output_folder(parameters["output_dir"]) as folder:
        outcome = run_bench(config, fields, specs, size, folder, Session, _print_progress)
    typer.echo(render_markdown(outcome.report), nl=False)
    if json is not None:
        write_json(json, outcome.report)
    if trace is not None:
        write_trace(trace, outcome.measurement)
    if plot is not None:
        write_plot(plot, outcome)
    if not outcome.report.outputs_equal:
        raise typer.Exit(1)


def bench_engine(requests: int, json: Path | None) -> None:
    """Run the bench of the engine alone. Raises UsageError for a file that cannot be written, and EngineError."""
    _check_files(json)
    with _interruptible():
        reports = run_engine_bench(requests, Session, _print_progress)
    typer.echo(engine_table(reports), nl=False)
    if json is not None:
        write_json(json, {"schema_version": 1, "paths": reports})


def bench_transport(clips: list[str] | None, repeats: int | None, device: str, json: Path | None) -> None:
    """Run the bench of the paths from a tensor to an encoder.

    Raises UsageError for a flag that cannot be used, EngineError, and typer.Exit(1) if pixels are more than a level
    apart.
    """
    _check_files(json)
    sizes = tuple(parse_clip_size(text) for text in clips or CLIPS)
    job = TransportJob(clips=sizes, repeats=repeats or REPEATS, device=device)
    with _interruptible():
        reports = run_transport_bench(job, _print_progress)
    typer.echo(transport_table(reports), nl=False)
    if json is not None:
        write_json(json, {"schema_version": 1, "cases": reports})
    if any(report.levels_apart > 1 for report in reports):
        raise typer.Exit(1)


def _print_progress(line: str) -> None:
    typer.echo(f"omni-gen bench: {line}", err=True)


def _check_files(json: Path | None, plot: Path | None = None, trace: Path | None = None) -> None:
    """Raise UsageError for a file that could not be written, before minutes are spent."""
    for flag, path in (("--json", json), ("--plot", plot), ("--trace", trace)):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise UsageError(f"{flag} {path}: must be a file in a folder that exists")
    if plot is not None:
        check_plot(plot)


@contextmanager
def _output_folder(path: Path | None) -> Iterator[Path]:
    """Yield the folder for the arms' folders: `path`, or a temporary one."""
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="omni-gen-bench-") as folder:
        yield Path(folder)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Exit with 128 and its number on a stop signal, after the worker processes and temporary files are cleaned up."""

    def leave(number: int, frame: Any) -> None:
        raise typer.Exit(128 + number)

    previous = {number: signal.signal(number, leave) for number in heeded_signals()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
