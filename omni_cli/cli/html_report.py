"""`omni-gen report OUTPUTS [OTHER]`: an HTML page of what a folder holds, or of two folders side by side."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

_PROGRESS_EVERY_S = 5.0


def report(
    outputs: Annotated[Path, typer.Argument(help="A folder with a manifest, or the manifest.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(help="Another one, to compare with the first.", show_default=False)
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option("-o", "--output-dir", metavar="DIR", help="Folder of the page (default: OUTPUTS/report)."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Write it again while a run writes to OUTPUTS.")] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Follow runs, and serve page and outputs on 127.0.0.1 until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of --serve; 0: any that is free.")] = 8000,
) -> None:
    """Write an HTML page: gallery, failures and notes, timeline; of two folders, each output beside its counterpart.

    The page is DIR/index.html and needs no network; it works during a run, too. Its path goes to stdout. Exit code 0
    whatever the page shows. With --follow, the page loads itself again until the run is over. With --serve, stdout has
    its address, which has a token: on another machine, forward the port (ssh -L 8000:127.0.0.1:8000).
    """
    # Imported here: --help stays fast.
    from omni_cli.cli.stderr_warnings import warnings_on_stderr
    from omni_cli.report import write_report
    from omni_cli.report.live_page import follow_run, follow_runs
    from omni_cli.report.page_server import serving
    from omni_cli.text import printable

    with warnings_on_stderr():
        written = write_report(outputs, other, output_dir, on_stage=StageLines())
        if follow:
            written = follow_run(outputs, other, output_dir)
        typer.echo(written.summary, err=True)
        if not serve:
            typer.echo(printable(str(written.page)))
            return
        roots = [outputs, *([] if other is None else [other])]
        with serving(written.page.parent, roots, port) as address:
            typer.echo(address)
            sys.stdout.flush()
            follow_runs(outputs, other, output_dir)


class StageLines:
    """Prints how far a report is: at most a line per 5 s on stderr."""

    def __init__(self) -> None:
        """Start the clock."""
        self._last = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Print "thumbnails: 1,200 of 10,000" if it is time for a line."""
        if time.monotonic() - self._last >= _PROGRESS_EVERY_S:
            self._last = time.monotonic()
            typer.echo(f"omni-gen: {what}: {done:,} of {total:,}", err=True)
            sys.stderr.flush()
