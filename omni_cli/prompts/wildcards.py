"""Wildcard files: `__colors__` in a prompt is a line of `colors.txt`, `__animals/birds__` one of `animals/birds.txt`.

Blank lines and lines that begin with # are skipped. A line may hold alternatives and wildcards itself. A name with `*`
takes the lines of all files that it matches. Files are read once, so that every pass over a prompt file finds the same.
"""

import os
from fnmatch import fnmatchcase
from pathlib import Path

from omni_cli.errors import DiagnosticError, UsageError
from omni_cli.prompts.templates import MAX_NESTING, Template, parse_template, pick_one
from omni_cli.storage.user_path import expand_user
from omni_cli.text import did_you_mean, escape, quote

MAX_WILDCARD_BYTES = 16 * 1024 * 1024

_SUFFIX = ".txt"


class Wildcards:
    """The wildcard files of a folder."""

    def __init__(self, folder: str | None, base: Path) -> None:
        """Read from `folder`; without one from `wildcards` in `base`, which need not be there.

        Raises UsageError if there is no `folder`.
        """
        self._folder = base / "wildcards" if folder is None else expand_user(folder)
        if folder is not None and not self._folder.is_dir():
            raise UsageError(f"--wildcards {quote(folder, 200)}: no such folder")
        self._paths: dict[str, Path] | None = None
        self._templates: dict[str, Template] = {}
        self._open: list[str] = []

    def template(self, name: str, depth: int) -> Template:
        """Return the choice of a line of the wildcard `name`, which stands `depth` levels deep in alternatives.

        Raises DiagnosticError if there is no such wildcard, or if it cannot be read.
        """
        if name in self._templates:
            return self._templates[name]
        if name in self._open:
            raise DiagnosticError(f"the wildcard {quote(name)} leads to itself", "change the line that names it")
        if depth >= MAX_NESTING:
            raise DiagnosticError(f"wildcards nested deeper than {MAX_NESTING} levels")
        self._open.append(name)
        try:
            options = [option for path in self._matching(name) for option in self._options(path, depth)]
        finally:
            self._open.pop()
        if not options:
            raise DiagnosticError(f"the wildcard {quote(name)} has no lines", "write a value on each line")
        template = self._templates[name] = pick_one(options)
        return template

    def _matching(self, name: str) -> list[Path]:
        if self._paths is None:
            self._paths = self._find()
        if name in self._paths:
            return [self._paths[name]]
        paths = [path for known, path in self._paths.items() if fnmatchcase(known, name)] if "*" in name else []
        if not paths:
            where = f"in {quote(str(self._folder), 200)}"
            if not self._folder.is_dir():
                where = f"as there is no folder {quote(str(self._folder), 200)}"
            otherwise = "--wildcards names the folder of such files; \\_\\_ stands for two underscores"
            cause = f"there is no wildcard {quote(name)} {where}"
            raise DiagnosticError(cause, did_you_mean(name, self._paths, otherwise))
        return paths

    def _find(self) -> dict[str, Path]:
        """Return the wildcard files by name, in the order of their names."""
        found = {}
        for folder, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(_SUFFIX):
                    path = Path(folder, name)
                    found[path.relative_to(self._folder).with_suffix("").as_posix()] = path
        return dict(sorted(found.items()))

    def _options(self, path: Path, depth: int) -> list[tuple[Template, float]]:
        shown = escape(str(path))
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_WILDCARD_BYTES + 1)
            text = raw.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise DiagnosticError(f"the wildcard file {shown} cannot be read: {reason}") from error
        if len(raw) > MAX_WILDCARD_BYTES:
            raise DiagnosticError(f"the wildcard file {shown} is longer than {MAX_WILDCARD_BYTES >> 20} MiB")
        options = []
        for number, line in enumerate(text.splitlines(), 1):
            value = line.strip()
            if not value or value.startswith("#"):
                continue
            try:
                options.append((parse_template(value, self.template, depth), 1.0))
            except DiagnosticError as error:
                place = f"{shown}:{number}:{line.index(value) + error.diagnostic.offset + 1}"
                raise DiagnosticError(f"{error.diagnostic.cause} (at {place})", error.diagnostic.remedy) from error
        return options
