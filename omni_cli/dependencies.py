"""Compare the installed packages with what omni-gen's own metadata requires, without importing any of them.

pip checks versions when it installs omni-gen, not when something else is installed later. This module imports none of
what omni-gen depends on until it is called, and then `packaging` alone, so that it can name any that is missing.
"""

import importlib.metadata
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

DISTRIBUTION = "omni-gen"

MODEL_PACKAGES = frozenset({"torch", "diffusers", "transformers", "accelerate", "peft", "ftfy", "sentencepiece"})
"""Packages that only a process with a model imports: a prompt file is checked without them."""

_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)
_LOWER_BOUND = re.compile(r"([\w.-]+)(?:\[[\w, -]+\])? *>= *(\d+(?:\.\d+)*)")
_RELEASE = re.compile(r"(\d+(?:\.\d+)*)(?![\d!])")
"""The release of a version without an epoch: "2.13.0" of "2.13.0a0+git"."""


@dataclass(frozen=True, slots=True)
class UnmetRequirement:
    """A required package that is missing or too old: `requirement` as pip takes it, `installed` its version or None."""

    requirement: str
    installed: str | None

    def __str__(self) -> str:
        """Return "av>=17.1, found 16.0.1", or "av>=17.1, not installed"."""
        return f"{self.requirement}, {f'found {self.installed}' if self.installed else 'not installed'}"


def unmet_requirements(*, model: bool = True, distribution: str = DISTRIBUTION) -> list[UnmetRequirement]:
    """Return the required packages that are missing or too old; none for a source tree that is not installed.

    `model=False` leaves out MODEL_PACKAGES; extras are left out always. Pre-releases and builds of a vendor count as
    their release: 2.13.0a0+git meets >=2.13, and so does a version that cannot be read.
    """
    try:
        lines = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    lines = [line for line in lines if not _is_plainly_met(line)]
    if not lines:
        return []
    try:
        from packaging.requirements import Requirement  # 30 ms, and it may itself be what is missing
    except ImportError:  # versions cannot be compared: name what is missing, `packaging` among it
        names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line]
        return [UnmetRequirement(name, None) for name in names if installed_version(name) is None]
    unmet = []
    for requirement in map(Requirement, lines):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not model and requirement.name in MODEL_PACKAGES:
            continue
        installed = installed_version(requirement.name)
        release = None if installed is None else _release(installed)
        if installed is None or (release is not None and release not in requirement.specifier):
            unmet.append(UnmetRequirement(f"{requirement.name}{requirement.specifier}", installed))
    return unmet


def check_dependencies(*, model: bool = True) -> None:
    """Raise DependencyError if `unmet_requirements` finds any."""
    from omni_cli.errors import DependencyError  # imports msgspec, which may be missing

    if message := describe_unmet(unmet_requirements(model=model)):
        raise DependencyError(message)


def describe_unmet(unmet: Iterable[UnmetRequirement]) -> str:
    """Return one message that names each package and the command that mends them all; "" if there are none."""
    unmet = list(unmet)
    if not unmet:
        return ""
    packages = "; ".join(map(str, unmet))
    command = shlex.join(["pip", "install", *(each.requirement for each in unmet)])
    return f"packages are missing or too old: {packages}. To mend it: {command}"


def _is_plainly_met(line: str) -> bool:
    """Return True for a requirement of an extra, and for one of the form name>=1.2 that is met; False if in doubt."""
    if re.search(r"""; *extra *== *['"]\w+['"]\Z""", line) is not None:
        return True
    match = _LOWER_BOUND.fullmatch(line)
    installed = None if match is None else installed_version(match[1])
    release = None if installed is None else _RELEASE.match(installed)
    if match is None or release is None:
        return False
    found, needed = ([int(part) for part in text.split(".")] for text in (release[1], match[2]))
    return found + [0] * (len(needed) - len(found)) >= needed


def _release(version: str) -> str | None:
    """Return the release that `version` is a build of: "2.13.0" of "2.13.0a0+git"; None if it is no version."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version).base_version
    except InvalidVersion:
        return None


def installed_version(name: str) -> str | None:
    """Return the version of the installed distribution `name`; None if there is none.

    Reads one line of its metadata: `importlib.metadata.version` parses all of it, which takes 2 ms.
    """
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    match = _VERSION.search(distribution.read_text("METADATA") or "")
    return match[1] if match is not None else distribution.version
