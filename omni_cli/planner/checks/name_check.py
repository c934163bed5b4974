"""Check that ids and output files are unique, and that each file can be placed."""

from collections.abc import Sequence

from omni_cli.config import PREVIEW_SUFFIX, RunConfig
from omni_cli.errors import Diagnostic
from omni_cli.planner.checks.output_paths import OutputPathCheck
from omni_cli.planner.checks.unique_names import UniqueNames
from omni_cli.planner.resolve import SourcedRequest
from omni_cli.text import quote


class NameCheck:
    """The ids and files of all requests that were checked."""

    def __init__(self, config: RunConfig) -> None:
        """Start without any id or file."""
        self._names = UniqueNames()
        self._paths = OutputPathCheck(config.output.output_dir)
        self._has_previews = config.engine.preview_every > 0

    def id_problems(self, row: SourcedRequest) -> list[Diagnostic]:
        """Return a problem if an earlier row has the same id; register the id if not."""
        request_id = row.request.id
        assert request_id is not None, "rows are identified before they are checked"
        first = self._names.claim_id(request_id, row.line)
        if first is None:
            return []
        return [row.problem("id", f"{quote(request_id)} is already the id of {_request_at(first)}", "ids must differ")]

    def file_problems(self, row: SourcedRequest, paths: Sequence[str], folder: bool = False) -> list[Diagnostic]:
        """Return the first of `paths` that cannot be placed or that an earlier row has; register those before it."""
        for path in paths:
            fault = self._paths.fault(path, folder)
            if not fault and self._has_previews and path.casefold().endswith(PREVIEW_SUFFIX):
                fault = f"ends in {PREVIEW_SUFFIX}, as the previews of --preview-every do"
            if not fault and (first := self._names.claim_file(path, row.line)) is not None:
                fault = f"clashes with a file of {_request_at(first)}; names are compared without case"
            if fault:
                field = "id" if row.request.output is None else "output"
                cause = f"the file {quote(path, 200)} {fault}"
                return [row.problem(field, cause, "give it another name with output")]
        return []


def _request_at(line: int) -> str:
    """Return what to call the request of `line`; requests of a program have no lines."""
    return f"line {line}" if line else "an earlier request"
