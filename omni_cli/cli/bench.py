"""`omni-gen bench`: what the overlap is worth here; `bench engine` and `bench transport`: its parts, without a model."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from omni_cli.api.session import Session
from omni_cli.bench.arms import SPECS, chosen
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
from omni_cli.cli import options as o
from omni_cli.cli.defaults import checked_defaults
from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig, VideoOutputTransport, output_timeout
from omni_cli.errors import UsageError

bench_app = typer.Typer(invoke_without_command=True, no_args_is_help=False)

Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]


@bench_app.callback()
def bench(
    context: typer.Context,
    model: o.Model = "demo",
    resolution: Annotated[str, typer.Option(metavar="N|WxH", help="Pixels: a square, or width and height.")] = "256",
    num_frames: Annotated[int, typer.Option(min=1, help="Frames of a clip; 1 makes images.")] = 1,
    requests: Annotated[int | None, typer.Option(min=1, help="Per round (default: by the time they take).")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Turns of each arm (default: about 3 minutes' worth).")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Above 1: the arms with batches, too.")] = 1,
    num_inference_steps: o.Steps = None,
    guidance_scale: o.Guidance = None,
    fps: o.Fps = None,
    format_: o.Format = None,
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    device_postprocess: o.DevicePostprocess = None,
    arms: Annotated[str | None, typer.Option(metavar="LIST", help=f"Of {', '.join(SPECS)}.")] = None,
    json: Json = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a chart (.png or .svg).")] = None,
    trace: o.Trace = None,
    output_dir: Annotated[
        Path | None, typer.Option("-o", "--output-dir", help="Keep the files here (default: a temporary folder).")
    ] = None,
) -> None:
    """Render the same requests with the overlap, without it, and in a plain loop over the pipeline; compare times and pixels.

    Each arm loads the model once and waits its turn, so there must be memory for as many models as arms (see --arms); loading
    is not in the figures. Exit code 1 if the pictures differ.
    """
    if context.invoked_subcommand is not None:
        return
    width, height = size_of(resolution)
    fields = checked_defaults(
        width=width,
        height=height,
        num_frames=num_frames,
        num_inference_steps=num_inference_steps,
        guidance_scale=guidance_scale,
        fps=fps,
        format=format_,
    )
    specs = chosen(arms, batch_size)
    _check_files(json, plot, trace)
    config = RunConfig(
        model=ModelConfig(model=model, device=device, dtype=dtype),
        engine=EngineConfig(
            batch_size=batch_size,
            output_timeout=output_timeout(),
            transport=VideoOutputTransport(enable_device_postprocess=device_postprocess is not False),
        ),
        output=OutputConfig(),
    )
    with _interruptible(), _folder(output_dir) as folder:
        outcome = run_bench(config, fields, specs, Counts(requests, rounds), folder, Session, _say)
    typer.echo(render(outcome.report), nl=False)
    _write_files(outcome, json, plot, trace)
    if not outcome.report.outputs_equal:
        raise typer.Exit(1)


@bench_app.command("engine")
def engine(
    requests: Annotated[int, typer.Option(min=20, help="Per row of the table.")] = 2000,
    json: Json = None,
) -> None:
    """What the engine costs per request: a runner that makes 8x8 pictures at once."""
    _check_files(json, None, None)
    with _interruptible():
        reports = run_engine_bench(requests, Session, _say)
    typer.echo(engine_table(reports), nl=False)
    if json is not None:
        write_json(json, {"schema_version": 1, "paths": reports})


@bench_app.command("transport")
def transport(
    clip: Annotated[
        list[str], typer.Option("--clip", metavar="TxHxW", help="Frames, height, width; may be given several times.")
    ] = list(CLIPS),  # noqa: B006 - typer copies it
    repeats: Annotated[
        int, typer.Option(min=3, help="At most so many of each way; fewer where one takes long.")
    ] = REPEATS,
    device: o.Device = "auto",
    json: Json = None,
) -> None:
    """From a decoded tensor to bytes an encoder can read: our way against that of the documents this engine follows."""
    _check_files(json, None, None)
    job = TransportJob(clips=tuple(clip_of(text) for text in clip), repeats=repeats, device=device)
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
