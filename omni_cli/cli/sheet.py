"""`omni-gen sheet OUTPUTS... -o sheet.png`: outputs in a grid, as a picture or a video."""

from pathlib import Path
from typing import Annotated

import typer


def sheet(
    outputs: Annotated[list[Path], typer.Argument(help="Folders with manifests.", show_default=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help=".png .jpg .webp, or .mp4 .webm .mov .mkv.")
    ] = Path("sheet.png"),
    x: Annotated[str | None, typer.Option("--x", metavar="FIELD", help="A column per value of this field.")] = None,
    y: Annotated[str | None, typer.Option("--y", metavar="FIELD", help="A line per value of this field.")] = None,
    columns: Annotated[int, typer.Option(min=1, max=1000, help="Outputs a line, without --x and --y.")] = 8,
    rows: Annotated[int, typer.Option(min=1, max=1000, help="Lines a sheet, without --x and --y.")] = 12,
    size: Annotated[int, typer.Option(min=16, max=4096, help="Longest side of a picture, in pixels.")] = 256,
    caption: Annotated[str, typer.Option(metavar="FIELD|none", help="The field below each output.")] = "id",
    strip: Annotated[int, typer.Option(min=1, max=64, help="Frames of a clip, side by side.")] = 1,
    ids: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only these requests.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first outputs.")] = None,
    font: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Font for scripts other than Latin (.ttf, .otf).")
    ] = None,
) -> None:
    """Write a contact sheet, or an X/Y grid over fields of the requests, seed, model or folder; of clips also a video.

    Without --x and --y, what does not fit one sheet goes to sheet-2.png and so on. The paths go to stdout.
    """
    # Imported here: --help stays fast.
    from omni_cli.cli.stderr_warnings import warnings_on_stderr
    from omni_cli.report.contact_sheet import SheetStyle
    from omni_cli.report.sheet_cells import check_field, read_sheet_outputs
    from omni_cli.report.sheet_files import write_sheets
    from omni_cli.text import printable

    fields = [check_field(f"--{flag}", name) if name else None for flag, name in (("x", x), ("y", y))]
    caption = "" if caption == "none" else check_field("--caption", caption)
    style = SheetStyle(size=size, caption=caption, strip=strip, font=font)
    with warnings_on_stderr():
        found = read_sheet_outputs(outputs, ids or ())[:limit]
        written = write_sheets(found, output, style, fields[0], fields[1], columns, rows)
    for path in written.paths:
        typer.echo(printable(str(path)))
    typer.echo(written.summary, err=True)
