"""Check that a request can be part of a layout: its format, its metadata, and that the layout names its files."""

from collections.abc import Iterator

from omni_cli.config import LayoutName
from omni_cli.errors import Diagnostic
from omni_cli.export.layouts import LAYOUTS
from omni_cli.planner.resolve import Resolved, SourcedRequest, field_problem


def layout_problems(row: SourcedRequest, resolved: Resolved, layout: LayoutName | None) -> Iterator[Diagnostic]:
    """Yield what keeps the evaluator of `layout` from finding or reading the files of a request."""
    if layout is None:
        return
    chosen, form = LAYOUTS[layout], resolved.form.name
    if row.request.output is not None:
        yield row.problem("output", f"--layout {layout} names the files", "leave it out")
    if form not in chosen.formats:
        cause, remedy = f"{form} is not read by --layout {layout}", f"it reads {', '.join(chosen.formats)}"
        is_of_flag = row.request.format is None and resolved.explicit.format is not None
        yield field_problem(row, "format", cause, remedy) if is_of_flag else row.problem("format", cause, remedy)
    missing = [name for name in chosen.meta if name not in (row.request.meta or {})]
    if missing:
        cause = f"has no {' and no '.join(missing)}, which --layout {layout} writes beside the files"
        yield row.problem("meta", cause, f"use the list that comes with {layout}")
