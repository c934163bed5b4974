"""`omni-gen run --dry-run`: the plan for people on stderr, its paths or its lines on stdout."""

import posixpath
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

from omni_cli.api.dry import AnyPlanLine, PlanGroup, PlanModel, PlanRequest, PlanTotals, plan_file
from omni_cli.api.session import Session
from omni_cli.cli.signals import stopping
from omni_cli.config import RunConfig
from omni_cli.errors import Interrupted
from omni_cli.events import AnyEvent
from omni_cli.log import warnings_to
from omni_cli.planner.room import shown_bytes
from omni_cli.planner.source import Source
from omni_cli.trace import Timeline
from omni_cli.view.jsonl import json_line
from omni_cli.view.text import printable

SHOWN_FILES = 5
SHOWN_GROUPS = 40
"""What people are shown; --print gives everything."""

_REASONS = {
    "new": "new",
    "failed": "failed before",
    "changed": "changed since (another fingerprint or file name)",
    "file_missing": "done, but a file is missing or not what was written",
    "overwrite": "to be overwritten",
    "done": "done",
}


def dry_run(prompts: str, settings: RunConfig, data: Literal["paths", "json"] | None) -> int:
    """Show what `run` would do and return 0. Raises OmniGenError as a run would before its first forward."""
    shown = _Shown(data, settings.output.output_dir)
    with ExitStack() as stack:
        source = stack.enter_context(Source(prompts, settings.defaults))
        stack.enter_context(warnings_to(lambda text: _say(f"warning: {text}")))
        session = stack.enter_context(Session(settings, _ignore, Timeline(), dry=True))
        stack.enter_context(stopping(session.stop.request, session.kill))
        try:
            plan_file(session, source, shown)
        except Interrupted:
            return session.stop.exit_code
    shown.end()
    return 0


class _Shown:
    """Takes the lines of a plan: data goes out at once, what people read at the end."""

    def __init__(self, data: Literal["paths", "json"] | None, output_dir: str) -> None:
        self._data = data
        self._output_dir = output_dir
        self._files: list[str] = []
        self._models: list[PlanModel] = []
        self._groups: list[PlanGroup] = []
        self._totals: PlanTotals | None = None

    def __call__(self, line: AnyPlanLine) -> None:
        if self._data == "json":
            sys.stdout.buffer.write(json_line(line) + b"\n")
        match line:
            case PlanRequest():
                self._request(line)
            case PlanModel():
                self._models.append(line)
            case PlanGroup() if len(self._groups) < SHOWN_GROUPS:
                self._groups.append(line)
            case PlanTotals():
                self._totals = line
            case _:
                pass

    def end(self) -> None:
        """Write the rest of the data; then, unless a program reads, the plan for people."""
        sys.stdout.buffer.flush()
        if self._data != "json" and self._totals is not None:
            for text in self._lines(self._totals):
                _say(text)

    def _request(self, line: PlanRequest) -> None:
        if line.skip:
            return
        for file in line.files:
            path = posixpath.join(self._output_dir, file)
            if self._data == "paths":
                sys.stdout.buffer.write(path.encode("utf-8", "surrogateescape") + b"\n")
            if len(self._files) < SHOWN_FILES:
                self._files.append(path)

    def _lines(self, totals: PlanTotals) -> Iterator[str]:
        yield f"plan: {totals.render} of {_count(totals.requests, 'request')} to render, {totals.skip} already done"
        for reason, count in totals.reasons.items():
            yield f"  {count} {_REASONS.get(reason, reason)}"
        for model in self._models:
            weights = (
                "weights: not known" if model.weight_bytes is None else f"weights {shown_bytes(model.weight_bytes)}"
            )
            yield f"model {model.id}: {model.pipeline}, {model.dtype}, {weights}, revision {model.revision}"
        for group in self._groups:
            yield _group(group)
        if len(self._groups) == SHOWN_GROUPS:
            yield "  more groups are not shown; --print json has them all"
        calls = "a number of calls that measuring finds" if totals.calls is None else _count(totals.calls, "call")
        yield f"in all: {_count(totals.outputs, 'output')} in {calls}, {_count(totals.loads, 'model load')}"
        free = "" if totals.disk_free is None else f", {shown_bytes(totals.disk_free)} are free"
        yield (
            f"disk: typically {shown_bytes(totals.disk_bytes)}, at least {shown_bytes(totals.disk_least)}"
            f" for {_count(totals.files, 'file')} and their rows{free}"
        )
        for file in self._files:
            yield f"  {file}"
        if totals.files > len(self._files) > 0:
            yield f"  and {totals.files - len(self._files)} more (--print paths)"
        yield "nothing was rendered"


def _group(group: PlanGroup) -> str:
    sides = "size of the pipeline's choice"
    if group.width is not None and group.height is not None:
        sides = f"{group.width}x{group.height}" + (f"x{group.num_frames}" if group.num_frames is not None else "")
    lora = "".join(f", lora {adapter.path} ({adapter.weight:g})" for adapter in group.lora)
    steps = "" if group.num_inference_steps is None else f", {group.num_inference_steps} steps"
    calls = "" if group.calls is None else f" in {_count(group.calls, 'call')}"
    memory = (
        "not known" if group.memory_bytes is None else f"at least {shown_bytes(group.memory_bytes)} and activations"
    )
    return (
        f"  {group.model}, {sides}{steps}{lora}: {_count(group.requests, 'request')}, {_count(group.outputs, 'output')}{calls};"
        f" device memory {memory}; disk {shown_bytes(group.disk_bytes)}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _say(text: str) -> None:
    print(f"omni-gen: {printable(text)}", file=sys.stderr)  # noqa: T201


def _ignore(event: AnyEvent) -> None:
    """The engine is only asked; there is nothing to watch."""
