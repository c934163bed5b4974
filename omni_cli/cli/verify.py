"""`omni-gen verify OUTPUTS`: check files against the manifest, render some again, and compare pixels."""

from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.options import model_options as m
from omni_cli.cli.options import output_options as o


def verify(
    outputs: Annotated[Path, typer.Argument(help="A folder with a manifest, or the manifest.", show_default=False)],
    sample: Annotated[int | None, typer.Option(min=1, metavar="K", help="How many to render (default: all).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for choosing the sample.")] = 0,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Only these rows.")] = None,
    input_dirs: o.InputDirs = None,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the second renderings here.")] = None,
    model: m.ModelNow = None,
    device: m.Device = "auto",
    dtype: m.RecordedDtype = "auto",
    trust_remote_code: m.TrustRemoteCode = False,
    progress: o.ProgressOption = o.Progress.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Comparisons as JSON lines on stdout.")] = False,
) -> None:
    """Check that all files are those of the manifest, render K of them again, and compare pixels.

    Reports bit-exact, within one level, or different, and which package, model or device differs. Exit code 1 if a file
    is different, missing or changed.
    """
    # Imported here: --help stays fast.
    import msgspec

    from omni_cli.cli.rerun import INTERRUPTED, verify_outputs
    from omni_cli.config import ModelConfig, RunConfig
    from omni_cli.text import printable

    base = RunConfig(model=ModelConfig(device=device, dtype=dtype, trust_remote_code=trust_remote_code))
    verification = verify_outputs(outputs, ids or (), sample, seed, base, model, keep, progress.value, input_dirs or ())
    if verification.exit_code < INTERRUPTED:
        for comparison in (*verification.damaged, *verification.compared):
            line = msgspec.json.encode(comparison).decode() if as_json else printable(str(comparison))
            typer.echo(line)
        typer.echo(verification.summary, err=True)
    raise typer.Exit(verification.exit_code)
