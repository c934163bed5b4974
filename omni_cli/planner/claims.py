"""Who was first: ids and file names of all requests so far, with the line that claimed them.

A short ASCII name is kept as it is, any other as its 16-byte hash: at most about 150 bytes per id and per file. Names are
compared as the least capable file system would: without case and in one Unicode form. A name is either a file or a
folder of other files, never both.
"""

import unicodedata
from hashlib import blake2b

_SHORT = 32
"""Characters of a name that is kept as it is: hashing it would cost more time and save no memory."""

_Names = dict[str | bytes, int]


class Claims:
    """Grows with every claim; a claim that fails changes nothing."""

    def __init__(self) -> None:
        """With nothing claimed."""
        self._ids: _Names = {}
        self._files: _Names = {}
        self._folders: _Names = {}

    def claim_id(self, request_id: str, line: int) -> int | None:
        """None, or the line whose id is already this one."""
        key = request_id if len(request_id) <= _SHORT and request_id.isascii() else _key(request_id)
        first = self._ids.get(key)
        if first is None:
            self._ids[key] = line
        return first

    def claim_file(self, path: str, line: int) -> int | None:
        """None, or a line that has this very name, needs it as a folder, or has a file where this needs a folder."""
        folded = path.lower() if path.isascii() else _folded(path)
        key = folded if len(folded) <= _SHORT and folded.isascii() else _key(folded)
        if "/" not in folded:
            first = self._files.get(key)
            if first is None and self._folders:
                first = self._folders.get(key)
            if first is None:
                self._files[key] = line
            return first
        folders = [_key(folded[:at]) for at, char in enumerate(folded) if char == "/"]
        taken = [*(self._files.get(folder) for folder in folders), self._folders.get(key)]
        first = next((line for line in taken if line is not None), None)
        if first is None:
            first = self._files.get(key)
        if first is None:
            self._files[key] = line
            for folder in folders:
                self._folders.setdefault(folder, line)
        return first


def _key(name: str) -> str | bytes:
    if len(name) <= _SHORT and name.isascii():
        return name
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _folded(path: str) -> str:
    """Canonical caseless form (Unicode 3.13, D145); in ASCII that is lower case."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())
