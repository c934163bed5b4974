"""`omni-gen bench`: what the overlap gains on this machine.

`bench engine`, `bench transport`: its parts, without a model.
"""

from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.help_text import HelpCommand
from omni_cli.cli.options import engine_options as e
from omni_cli.cli.options import model_options as m
from omni_cli.cli.options import output_options as o
from omni_cli.cli.options import request_options as d

bench_app = typer.Typer(invoke_without_command=True, no_args_is_help=False)

Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]


@bench_app.callback()
def bench(
    context: typer.Context,
    model: m.Model = "demo",
    resolution: Annotated[str, typer.Option(metavar="N|WxH", help="Pixels: a square, or width and height.")] = "256",
    num_frames: Annotated[int, typer.Option(min=1, help="Frames of a clip; 1 makes images.")] = 1,
    requests: Annotated[int | None, typer.Option(min=1, help="Per round (default: by the time they take).")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Turns of each arm (default: about 3 minutes' worth).")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Above 1: measure the arms with batches, too.")] = 1,
    num_inference_steps: d.Steps = None,
    guidance_scale: d.Guidance = None,
    fps: d.Fps = None,
    format_: d.Format = None,
    device: m.Device = "auto",
    dtype: m.Dtype = "auto",
    device_postprocess: e.DevicePostprocess = None,
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Of plain, plain-tuned, no-async, async, and the last two's -batch, -float and -whole kinds.",
        ),
    ] = None,
    json: Json = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a chart (.png or .svg).")] = None,
    trace: o.Trace = None,
    output_dir: Annotated[
        Path | None, typer.Option("-o", "--output-dir", help="Keep the files here (default: a temporary folder).")
    ] = None,
) -> None:
    """Render the same requests with the overlap, without it, and in a plain pipeline loop; compare times and pixels.

    Each arm loads the model once and waits for its turns, so the device must hold one model per arm (see --arms).
    Loading is not part of the figures. Exit code 1 if the pixels differ.
    """
    if context.invoked_subcommand is not None:
        return
    parameters = {name: value for name, value in locals().items() if name != "context"}
    # Imported here: --help stays fast.
    from omni_cli.cli.bench_runs import bench_arms

    bench_arms(parameters)


@bench_app.command("engine", cls=HelpCommand)
def engine(
    requests: Annotated[int, typer.Option(min=20, help="Per row of the table.")] = 2000,
    json: Json = None,
) -> None:
    """Measure the cost of the engine per request, with a runner that returns 8x8 pictures at once."""
    # Imported here: --help stays fast.
    from omni_cli.cli.bench_runs import bench_engine

    bench_engine(requests, json)


@bench_app.command("transport", cls=HelpCommand)
def transport(
    clip: Annotated[
        list[str] | None,
        typer.Option("--clip", metavar="TxHxW", help="Frames, height, width; can be repeated."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=3, help="Most repeats of each path; fewer where one takes long.")
    ] = None,
    device: m.Device = "auto",
    json: Json = None,
) -> None:
    """Measure two paths from a decoded tensor to bytes that an encoder reads: this engine's, and a reference path.

    The reference path follows the public design of vLLM-Omni's asynchronous diffusion output.
    """
    # Imported here: --help stays fast.
    from omni_cli.cli.bench_runs import bench_transport

    bench_transport(clip, repeats, device, json)
