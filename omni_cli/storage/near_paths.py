"""Say what is there instead of a file that is missing: another spelling of its name, or where its path ends.

pictures/upper.png ── walk from the root ──> the first missing name ── compare with its folder ──> a spelling
"""

import os
import re
import unicodedata
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from omni_cli.storage.filesystem import FileVersion, file_version
from omni_cli.text import nearest, quote

MAX_ENTRIES = 5000
"""Entries of a folder that are read."""

MAX_COMPARED = 100
"""Entries of a folder whose names are compared letter by letter: that takes time for every missing file."""

_DRIVE = re.compile(r"(?:^|/)(?P<letter>[A-Za-z]):[\\/](?P<rest>.*)", re.DOTALL)


def near_miss(path: str) -> str:
    """Return a remedy that names what is there instead of the missing `path`, or "" if there is nothing like it."""
    drive = _DRIVE.search(path)
    if drive is not None:
        return _without_drive(drive["letter"], drive["rest"].replace("\\", "/"))
    spelled, notes = _other_spelling(path)
    if spelled is None and "\\" in path:
        spelled, notes = _other_spelling(path.replace("\\", "/"))
        notes = ["folders are separated with /", *notes]
    if spelled is not None:
        return f"there is {quote(spelled, 200)}: {', '.join(dict.fromkeys(notes))}" if notes else ""
    return "separate folders with /" if "\\" in path else _last_part(path)


def _without_drive(letter: str, rest: str) -> str:
    """Return the remedy for a path of Windows: where its drive is mounted, if it is."""
    for root in (f"/mnt/{letter.lower()}", f"/{letter.lower()}", f"/cygdrive/{letter.lower()}"):
        mounted, _ = _other_spelling(f"{root}/{rest}")
        if mounted is not None:
            return f"it is a path of Windows; here it is {quote(mounted, 200)}"
    return "it is a path of Windows; give the path that the file has on this machine"


def _other_spelling(path: str) -> tuple[str | None, list[str]]:
    """Return an existing path that differs from `path` in the spelling of names alone, and how it differs."""
    folder, notes = Path(Path(path).anchor or "."), list[str]()
    for name in filter(None, path.split("/")):
        here = folder / name
        if not os.path.lexists(here):
            names = _listing(folder).by_fold.get(_fold(name), ())
            if not names:
                return None, []
            notes.append(_difference(name, names[0]))
            here = folder / names[0]
        folder = here
    return (str(folder), notes) if folder.exists() else (None, [])


def _last_part(path: str) -> str:
    """Return the first folder of `path` that is missing, or the name in the last one that is most like the file's."""
    parts = Path(path).parts
    for at in range(1, len(parts)):
        folder, name = Path(*parts[:at]), parts[at]
        if os.path.lexists(folder / name):
            continue
        if at < len(parts) - 1:
            return f"there is no {quote(name)} in {quote(str(folder), 200)}"
        listing = _listing(folder)
        if same_stem := listing.by_stem.get(Path(name).stem):
            return f"there is {quote(same_stem[0])}"
        if len(listing.names) > MAX_COMPARED:
            return ""
        by_lower = {name.lower(): name for name in listing.names}
        guess = nearest(name, by_lower)
        return f"did you mean {quote(by_lower[guess])}?" if guess else ""
    return ""


def _fold(name: str) -> str:
    """Return what spellings of a name share: no case, one Unicode form, no blanks around it."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _difference(given: str, there: str) -> str:
    if given.strip() == there.strip():
        return "a blank before or after the name differs"
    if unicodedata.normalize("NFC", given) == unicodedata.normalize("NFC", there):
        return "its accents are composed differently (Unicode NFC and NFD)"
    if given.casefold().strip() == there.casefold().strip():
        return "upper and lower case differ"
    return "its characters differ in Unicode"


class _Listing(NamedTuple):
    """Names in a folder: all, by their fold, and by their stem."""

    names: list[str]
    by_fold: dict[str, list[str]]
    by_stem: dict[str, list[str]]


def _listing(folder: Path) -> _Listing:
    """Return the first MAX_ENTRIES names in `folder`; none if it cannot be read."""
    try:
        return _listed(folder, file_version(folder))
    except OSError:
        return _Listing([], {}, {})


@lru_cache(maxsize=16)  # many rows may name files of one folder
def _listed(folder: Path, _version: FileVersion) -> _Listing:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, MAX_ENTRIES))
    listing = _Listing(names, {}, {})
    for name in names:
        listing.by_fold.setdefault(_fold(name), []).append(name)
        listing.by_stem.setdefault(Path(name).stem, []).append(name)
    return listing
