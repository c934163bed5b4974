"""`omni-gen bench`: what the overlap is worth here; `bench engine` and `bench transport`: its parts, without a model."""

from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.options import defaults as d
from omni_cli.cli.options import engine as e
from omni_cli.cli.options import model as m
from omni_cli.cli.options import view as v

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
    batch_size: Annotated[int, typer.Option(min=1, help="Above 1: the arms with batches, too.")] = 1,
    num_inference_steps: d.Steps = None,
    guidance_scale: d.Guidance = None,
    fps: d.Fps = None,
    format_: d.Format = None,
    device: m.Device = "auto",
    dtype: m.Dtype = "auto",
    device_postprocess: e.DevicePostprocess = None,
    arms: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Of plain, no-async, async, and their -batch, -float and -whole kinds."),
    ] = None,
    json: Json = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a chart (.png or .svg).")] = None,
    trace: v.Trace = None,
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
    given = {name: value for name, value in locals().items() if name != "context"}
    # Imported when a bench is wanted: --help stays fast.
    from omni_cli.cli.benches import end_to_end

    end_to_end(given)


@bench_app.command("engine")
def engine(
    requests: Annotated[int, typer.Option(min=20, help="Per row of the table.")] = 2000,
    json: Json = None,
) -> None:
    """What the engine costs per request: a runner that makes 8x8 pictures at once."""
    # Imported when a bench is wanted: --help stays fast.
    from omni_cli.cli.benches import engine_alone

    engine_alone(requests, json)


@bench_app.command("transport")
def transport(
    clip: Annotated[
        list[str] | None,
        typer.Option("--clip", metavar="TxHxW", help="Frames, height, width; may be given several times."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=3, help="At most so many of each way; fewer where one takes long.")
    ] = None,
    device: m.Device = "auto",
    json: Json = None,
) -> None:
    """From a decoded tensor to bytes an encoder can read: our way against that of the documents this engine follows."""
    # Imported when a bench is wanted: --help stays fast.
    from omni_cli.cli.benches import transport_alone

    transport_alone(clip, repeats, device, json)
