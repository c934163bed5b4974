"""`omni-gen replay FILE`: render again what a file or a manifest records."""

from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.options import engine as e
from omni_cli.cli.options import model as m
from omni_cli.cli.options import output as o
from omni_cli.cli.options import view as v


def replay(
    files: Annotated[
        list[Path], typer.Argument(help="Output files, manifests, or folders with one.", show_default=False)
    ],
    ids: Annotated[list[str] | None, typer.Option("--id", help="Only these rows of a manifest.")] = None,
    output_dir: o.OutputDir = Path("replay"),
    model: Annotated[str | None, typer.Option("-m", "--model", help="Where the model is now, if elsewhere.")] = None,
    device: m.Device = "auto",
    dtype: Annotated[str, typer.Option(help="auto: as it was.")] = "auto",
    trust_remote_code: m.TrustRemoteCode = False,
    overwrite: o.Overwrite = False,
    progress: v.ProgressOption = v.Progress.AUTO,
    print_: v.PrintOption = None,
    executor: e.ExecutorOption = e.Executor.LOCAL,
) -> None:
    """Render outputs again, from the metadata in the files themselves or the rows of their manifest."""
    # Imported when there is something to render: --help stays fast.
    from omni_cli.api.recorded import recorded
    from omni_cli.cli.again import render_again
    from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig

    samples = [sample for path in files for sample in recorded(path, ids or ())]
    base = RunConfig(
        model=ModelConfig(device=device, dtype=dtype, trust_remote_code=trust_remote_code),
        engine=EngineConfig(executor=executor.value),
        output=OutputConfig(overwrite=overwrite),
    )
    code = render_again(samples, base, model, output_dir, progress.value, None if print_ is None else print_.mode)
    raise typer.Exit(code)
