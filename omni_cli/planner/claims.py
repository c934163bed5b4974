"""Who was first: ids and file names of all requests so far, as 16-byte hashes with the line that claimed them.

About 130 bytes per id and per file. Names are compared as the least capable file system would: without case and in
one Unicode form. A name is either a file or a folder of other files, never both.
"""

import unicodedata
from hashlib import blake2b


class Claims:
    """Grows with every claim; a claim that fails changes nothing."""

    def __init__(self) -> None:
        """With nothing claimed."""
        self._lines: dict[bytes, int] = {}

    def claim_id(self, request_id: str, line: int) -> int | None:
        """None, or the line whose id is already this one."""
        return self._claim(b"id", request_id, line)

    def claim_file(self, path: str, line: int) -> int | None:
        """None, or a line that has this very name, needs it as a folder, or has a file where this needs a folder."""
        folded = _folded(path)
        folders = [folded[:at] for at, char in enumerate(folded) if char == "/"]
        taken = [self._lines.get(_key(b"file", folder)) for folder in folders]
        taken.append(self._lines.get(_key(b"folder", folded)))
        first = next((line for line in taken if line is not None), None)
        if first is not None:
            return first
        first = self._claim(b"file", folded, line)
        if first is None:
            for folder in folders:
                self._lines.setdefault(_key(b"folder", folder), line)
        return first

    def _claim(self, kind: bytes, name: str, line: int) -> int | None:
        key = _key(kind, name)
        first = self._lines.get(key)
        if first is None:
            self._lines[key] = line
        return first


def _key(kind: bytes, name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, person=kind).digest()


def _folded(path: str) -> str:
    """Canonical caseless form (Unicode 3.13, D145)."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())
