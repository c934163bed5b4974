"""`omni-gen replay FILE`: render again what a file or a manifest records."""

from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.options import engine_options as e
from omni_cli.cli.options import model_options as m
from omni_cli.cli.options import output_options as o


def replay(
    files: Annotated[
        list[Path], typer.Argument(help="Output files, manifests, or folders with one.", show_default=False)
    ],
    ids: Annotated[list[str] | None, typer.Option("--id", help="Only these rows of a manifest.")] = None,
    input_dirs: o.InputDirs = None,
    output_dir: o.OutputDir = Path("replay"),
    model: m.ModelNow = None,
    device: m.Device = "auto",
    dtype: m.RecordedDtype = "auto",
    trust_remote_code: m.TrustRemoteCode = False,
    overwrite: o.Overwrite = False,
    keep_old: o.KeepOld = False,
    replace_changed: o.ReplaceChanged = False,
    progress: o.ProgressOption = o.Progress.AUTO,
    print_: o.PrintOption = None,
    executor: e.ExecutorOption = e.ExecutorChoice.LOCAL,
) -> None:
    """Render outputs again, from the metadata in the files themselves or the rows of their manifest."""
    # Imported here: --help stays fast.
    from omni_cli.api.file_finder import FileFinder
    from omni_cli.api.recorded import read_samples
    from omni_cli.cli.rerun import rerun
    from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig

    recorded = [sample for path in files for sample in read_samples(path, ids or ())]
    samples = FileFinder(input_dirs or ()).locate_all(recorded, model=model is None)
    base = RunConfig(
        model=ModelConfig(device=device, dtype=dtype, trust_remote_code=trust_remote_code),
        engine=EngineConfig(executor=executor.value),
        output=OutputConfig(overwrite=overwrite, changed=o.changed_policy(keep_old, replace_changed, overwrite)),
    )
    raise typer.Exit(rerun(samples, base, model, output_dir, progress.value, o.print_mode(print_)))
