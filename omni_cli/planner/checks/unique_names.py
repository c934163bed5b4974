"""Ids and file names of all requests, with the line of the request that has each.

Names are compared as the least capable file system would: without case and in one Unicode form. A name is either a file
or a folder of other files, never both. A short ASCII name is kept as it is, any other as its 16-byte hash: an id or a
file takes about 150 bytes at most.
"""

from hashlib import blake2b

from omni_cli.text import caseless

_MAX_KEPT = 32
"""Characters of a name that is kept as it is: a hash would cost more time and save no memory."""

_Lines = dict[str | bytes, int]


class UniqueNames:
    """Names and the lines that claimed them. A claim that fails changes nothing."""

    def __init__(self) -> None:
        """Start without names."""
        self._ids: _Lines = {}
        self._files: _Lines = {}
        self._folders: _Lines = {}

    def claim_id(self, request_id: str, line: int) -> int | None:
        """Claim an id for `line`; return None, or the line that has it."""
        key = _key(request_id)
        first = self._ids.get(key)
        if first is None:
            self._ids[key] = line
        return first

    def claim_file(self, path: str, line: int) -> int | None:
        """Claim a file for `line`; return None, or a line that has this file, a folder of this name, or a file where
        this path needs a folder.
        """
        folded = caseless(path)
        key = _key(folded)
        if "/" not in folded:
            first = self._files.get(key)
            if first is None and self._folders:
                first = self._folders.get(key)
            if first is None:
                self._files[key] = line
            return first
        folders = [_key(folded[:at]) for at, char in enumerate(folded) if char == "/"]
        claims = [*(self._files.get(folder) for folder in folders), self._folders.get(key), self._files.get(key)]
        first = next((claim for claim in claims if claim is not None), None)
        if first is None:
            self._files[key] = line
            for folder in folders:
                self._folders.setdefault(folder, line)
        return first


def name_key(path: str) -> str | bytes:
    """Return a key that is equal for paths that some file system takes for one."""
    return _key(caseless(path))


def _key(name: str) -> str | bytes:
    if len(name) <= _MAX_KEPT and name.isascii():
        return name
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
