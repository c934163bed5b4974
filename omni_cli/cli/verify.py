"""`omni-gen verify OUTPUTS`: are the files what the manifest says, and would they come out the same today?"""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.options import model as m
from omni_cli.cli.options import view as v


def verify(
    outputs: Annotated[Path, typer.Argument(help="A folder with a manifest, or the manifest.", show_default=False)],
    sample: Annotated[int | None, typer.Option(min=1, metavar="K", help="How many to render (default: all).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which ones: the same seed draws the same.")] = 0,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Only these rows.")] = None,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the second renderings here.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Where the model is now, if elsewhere.")] = None,
    device: m.Device = "auto",
    dtype: Annotated[str, typer.Option(help="auto: as it was.")] = "auto",
    trust_remote_code: m.TrustRemoteCode = False,
    progress: v.ProgressOption = v.Progress.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Verdicts as JSON lines on stdout.")] = False,
) -> None:
    """Check that all files are those of the manifest, render K of them again, and compare pixels.

    Says bit-exact, within one level, or different, and which package, model or device differs. Exit code 1 if one is different,
    missing or changed.
    """
    # Imported when there is something to verify: --help stays fast.
    import msgspec

    from omni_cli.api.recorded import recorded
    from omni_cli.cli.again import faulty, judge, line_of, render_again, sampled
    from omni_cli.config import ModelConfig, RunConfig

    samples = recorded(outputs, ids or ())
    broken = faulty(samples)
    chosen = sampled([entry for entry in samples if entry.name not in broken], sample, seed)
    base = RunConfig(model=ModelConfig(device=device, dtype=dtype, trust_remote_code=trust_remote_code))
    found = list(broken.values())
    with tempfile.TemporaryDirectory(prefix="omni-gen-verify-") as temporary:
        folder = keep or Path(temporary)
        code = render_again(chosen, base, model, folder, progress.value) if chosen else 0
        if code >= 130:
            raise typer.Exit(code)
        found += judge(chosen, folder)
    for verdict in found:
        typer.echo(msgspec.json.encode(verdict).decode() if as_json else line_of(verdict))
    good = sum(verdict.good for verdict in found)
    typer.echo(
        f"{len(samples)} files, {len(broken)} missing or changed; {good} of {len(chosen)} rendered again are the same",
        err=True,
    )
    raise typer.Exit(0 if good == len(found) else 1)
