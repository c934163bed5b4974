"""LoRA tags of AUTOMATIC1111's web UI: `<lora:NAME:0.8>` in a prompt is the adapter NAME.safetensors with this weight.

NAME is a file's name without its extension, in `--lora-dir` or any folder in it; a name that several folders have is
given with its folder (`<lora:styles/ink:0.8>`). Names are looked up among the files that are there, never joined to a
path.
"""

import math
import os
import re
from pathlib import Path

from omni_cli.errors import DiagnosticError, UsageError
from omni_cli.request import Adapter
from omni_cli.storage.user_path import expand_user
from omni_cli.text import nearest, quote

_SUFFIX = ".safetensors"


class LoraFolder:
    """The adapters of a folder by name; without a folder, there are none."""

    def __init__(self, folder: str | None) -> None:
        """Raise UsageError if there is no such folder."""
        self._folder = None if folder is None else expand_user(folder).absolute()
        if folder is not None and not Path(self._folder or "").is_dir():
            raise UsageError(f"--lora-dir {quote(folder, 200)}: no such folder")
        self._paths: dict[str, list[str]] | None = None

    def take_tags(self, prompt: str) -> tuple[str, list[Adapter]]:
        """Return `prompt` without its tags, and their adapters. Raises DiagnosticError, whose offset is in `prompt`."""
        adapters: dict[str, Adapter] = {}
        for match in TAG.finditer(prompt):
            try:
                adapter = self._adapter(match)
            except DiagnosticError as error:
                diagnostic = error.diagnostic
                raise DiagnosticError(diagnostic.cause, diagnostic.remedy, offset=match.start()) from error
            if adapter.path in adapters:
                remedy = "give it once, with the sum of the weights"
                raise DiagnosticError(f"{quote(match.group())}: this LoRA is given twice", remedy, offset=match.start())
            adapters[adapter.path] = adapter
        if not adapters:
            return prompt, []
        return _AROUND_TAG.sub(_joint, prompt).strip(), list(adapters.values())

    def _adapter(self, match: re.Match[str]) -> Adapter:
        if match["kind"].lower() != "lora":
            raise DiagnosticError(f"{quote(match.group())}: networks of this kind are not read", "only <lora:...> is")
        name, *weights = (part.strip() for part in match["rest"].split(":"))
        try:
            values = {float(weight) for weight in weights}
        except ValueError:
            values = {math.nan}
        if len(values) > 1 or not all(map(math.isfinite, values)):
            cause = f"{quote(match.group())}: expected one weight for the whole adapter"
            raise DiagnosticError(cause, "write it as in <lora:NAME:0.8>")
        return Adapter(path=self._path(name), weight=values.pop() if values else 1.0)

    def _path(self, name: str) -> str:
        if self._folder is None:
            cause = f"the file of the LoRA {quote(name)} is not known"
            raise DiagnosticError(cause, "--lora-dir names the folder of such files; the field lora takes paths")
        if self._paths is None:
            self._paths = _adapters_in(self._folder)
        paths = self._paths.get(name) or self._paths.get(name.removesuffix(_SUFFIX), [])
        where = f"in {quote(str(self._folder), 200)}"
        if not paths:
            by_lower_case = {known.lower(): known for known in self._paths}
            guess = by_lower_case.get(nearest(name, by_lower_case))
            remedy = f"put it there as {quote(name + _SUFFIX)}, or remove the tag"
            if guess is not None:
                remedy = f"did you mean {quote(guess)}?"
            raise DiagnosticError(f"there is no LoRA {quote(name)} {where}", remedy)
        if len(paths) > 1:
            files = ", ".join(quote(os.path.relpath(path, self._folder).removesuffix(_SUFFIX)) for path in paths[:4])
            raise DiagnosticError(f"{len(paths)} files {where} are called {quote(name)}", f"name one of {files}")
        return paths[0]


def _adapters_in(root: Path) -> dict[str, list[str]]:
    """Return the paths of the adapters below `root` by their names, with their folders and without."""
    found: dict[str, list[str]] = {}
    for folder, _, names in os.walk(root, followlinks=True):
        for file in names:
            if file.endswith(_SUFFIX):
                path = Path(folder, file)
                within = path.relative_to(root).as_posix().removesuffix(_SUFFIX)
                for name in {within, file.removesuffix(_SUFFIX)}:
                    found.setdefault(name, []).append(str(path))
    return {name: sorted(paths) for name, paths in found.items()}


def _joint(match: re.Match[str]) -> str:
    """Return what stands between the words around a tag: one blank where there were blanks on both sides."""
    return " " if match["before"] and match["after"] else match["before"] or match["after"]


TAG = re.compile(r"<(?P<kind>lora|lyco|lycoris|hypernet):(?P<rest>[^<>]*+)>", re.IGNORECASE)
_AROUND_TAG = re.compile(rf"(?<!\s)(?P<before>\s*){TAG.pattern}(?P<after>\s*)", re.IGNORECASE)
