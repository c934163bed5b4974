"""What to say of a prompt file that is not there: it may be misspelled, or it may be a prompt."""

import errno
import re
import shlex
from pathlib import Path

from omni_cli.storage.near_paths import near_miss
from omni_cli.text import QUOTED_LENGTH, escape, quote

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)

_EXTENSION = re.compile(r"[^\s.]\.[A-Za-z0-9]{1,7}\Z")


def missing_file(path: str, error: OSError | ValueError) -> str:
    """Return the message for a prompt file that `error` keeps from being found."""
    if isinstance(error, ValueError):  # a NUL character
        return f"cannot read prompts from {escape(path)}: {error}; check the path"
    if error.errno in _ABSENT and not _looks_like_path(path):
        shown = shlex.quote(path) if len(path) <= QUOTED_LENGTH and path.isprintable() else "TEXT"
        return f"there is no file {quote(path)}; to render these words: omni-gen run --prompt {shown}"
    near = near_miss(str(Path(path).absolute())) if error.errno == errno.ENOENT else ""
    return f"cannot read prompts from {escape(path)}: {error.strerror}; {near or 'check the path'}"


def _looks_like_path(text: str) -> bool:
    """Return True for a name with an extension, or a path without blanks."""
    return _EXTENSION.search(text) is not None or ("/" in text and not any(map(str.isspace, text)))
