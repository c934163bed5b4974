"""A server of a page on this machine alone: the page, its thumbnails, and the outputs of the rows; nothing else.

    GET /TOKEN/report/index.html ──> only with the token of the printed address, and for a name of this machine
    GET /TOKEN/a.png ─────────────> only a file that a row names; a part of it where a player asks for one

The paths are those on disk below the folder that holds the page and all outputs, so the relative links of the page lead
to the same files as without a server. The token keeps other users of the machine out, and pages of other sites.
"""

import contextlib
import hmac
import os
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from omni_cli.errors import UsageError
from omni_cli.journal import manifest_folder, manifests_version
from omni_cli.log import logger
from omni_cli.report.html_page import PAGE_NAME, THUMBNAIL_FOLDER
from omni_cli.report.reported_outputs import is_outside, manifest_rows, url_of
from omni_cli.storage.atomic import FRAME_FILES
from omni_cli.storage.filesystem import FileVersion, open_plain_file

HOST = "127.0.0.1"

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_BLOCK = 1 << 18

_SHUTDOWN_POLL_S = 0.1
"""How often socketserver looks whether it is to end, in seconds."""


_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".gif": "image/gif",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".mkv": "video/x-matroska",
    ".webm": "video/webm",
    ".wav": "audio/wav",
    ".flac": "audio/flac",
}
"""What a browser shows, by extension. Everything else is a download: a foreign file is never a document here."""


def requested_part(header: str, size: int) -> tuple[int, int] | None:
    """Return the first byte and the end of a `Range` header's one range; None for none, or one outside of the file."""
    match = _RANGE.fullmatch(header)
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:  # the last so many bytes
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    return (start, end) if start < end else None


class ServedFiles:
    """The files that may be served: the page in `page_dir`, its thumbnails, and what the rows of `roots` name."""

    def __init__(self, page_dir: Path, roots: Sequence[Path]) -> None:
        """Read the rows when they are first asked for, and again when a manifest has changed."""
        self._page_dir = page_dir.resolve()
        self.page_file = self._page_dir / PAGE_NAME
        self._roots = [root.resolve() for root in roots]
        self._base = Path(os.path.commonpath([self._page_dir, *self._roots]))
        self._versions: list[tuple[FileVersion, ...] | None] = []
        self._outputs: frozenset[str] = frozenset()

    @property
    def page(self) -> str:
        """The page as a relative URL."""
        return url_of(os.path.relpath(self.page_file, self._base))

    def find(self, relative: str) -> Path | None:
        """Return the file at the relative POSIX path, None if it may not be served."""
        if is_outside(relative):
            return None
        path = self._base / relative
        if path == self.page_file or path.parent == self._page_dir / THUMBNAIL_FOLDER:
            return path
        is_frame = FRAME_FILES.fullmatch(path.name) is not None
        outputs = self._known_outputs()
        return path if str(path) in outputs or (is_frame and str(path.parent) in outputs) else None

    def _known_outputs(self) -> frozenset[str]:
        with contextlib.suppress(OSError, UsageError):  # a manifest that is gone: what was known before
            versions = [manifests_version(root) for root in self._roots]
            if versions != self._versions:
                self._outputs = frozenset(
                    str(root / file.path)
                    for root in self._roots
                    for row in manifest_rows(root)[1]
                    for file in row.files
                    if not is_outside(file.path)
                )
                self._versions = versions
        return self._outputs


class PageServer(ThreadingHTTPServer):
    """Serves `files` on HOST; `address` is what to open in a browser."""

    daemon_threads = True

    def __init__(self, files: ServedFiles, port: int) -> None:
        """Listen on `port`, 0 for any that is free. Raises UsageError if it cannot be had."""
        self.files = files
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UsageError(
                f"--port {port}: cannot be listened on: {error.strerror or error}; name another one, or 0 for any"
            ) from error

    def handle_error(self, request: object, client_address: object) -> None:
        """Log what a connection failed with: mostly a browser that has left."""
        logger.info("report server: a request failed", exc_info=True)

    @property
    def address(self) -> str:
        """The URL of the page, with its token."""
        return f"http://{HOST}:{self.server_port}/{self.token}/{self.files.page}"


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = 60.0

    def do_GET(self) -> None:
        """Send a file, or the part of it that was asked for."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of a file."""
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log requests where the package logs, not on stderr; not their paths, which have the token."""
        logger.debug("report server: %s", self.command)

    def _answer(self, *, with_body: bool) -> None:
        path = self._permitted_path()
        if path is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            descriptor = open_plain_file(path, follow_symlinks=True)
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with os.fdopen(descriptor, "rb") as file, contextlib.suppress(ConnectionError):  # a player that has seen enough
            size = os.fstat(descriptor).st_size
            part = requested_part(self.headers.get("Range", ""), size)
            self._send_head(path, size, part)
            if with_body:
                self._send_part(file, *(part or (0, size)))

    def _permitted_path(self) -> Path | None:
        """Return the file of the request, None without the token, for another host, or for what is not served."""
        names = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        parts = urlsplit(self.path).path.split("/", 2)
        if self.headers.get("Host") not in names or len(parts) < 3:
            return None
        if not hmac.compare_digest(parts[1].encode(), self.server.token.encode()):
            return None
        return self.server.files.find(os.fsdecode(unquote(parts[2], errors="surrogateescape")))

    def _send_head(self, path: Path, size: int, part: tuple[int, int] | None) -> None:
        """Send status and headers of a file of `size` bytes, or of the `part` from a first byte up to an end."""
        first, end = part or (0, size)
        self.send_response(HTTPStatus.OK if part is None else HTTPStatus.PARTIAL_CONTENT)
        if part is not None:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
        is_page = path == self.server.files.page_file
        kind = "text/html; charset=utf-8" if is_page else _TYPES.get(path.suffix.lower(), "application/octet-stream")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(end - first))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()

    def _send_part(self, file: BinaryIO, first: int, end: int) -> None:
        file.seek(first)
        while first < end:
            block = file.read(min(_BLOCK, end - first))
            if not block:
                self.close_connection = True  # the file was cut meanwhile
                return
            self.wfile.write(block)
            first += len(block)


@contextlib.contextmanager
def serving(page_dir: Path, outputs: Sequence[Path], port: int) -> Iterator[str]:
    """Serve the page in `page_dir` and the outputs of the folders or manifests `outputs`; the value is its address.

    Raises UsageError if the port cannot be had.
    """
    files = ServedFiles(page_dir, [manifest_folder(path) for path in outputs])
    with PageServer(files, port) as server:
        thread = threading.Thread(
            target=server.serve_forever, args=(_SHUTDOWN_POLL_S,), name="report-server", daemon=True
        )
        thread.start()
        try:
            yield server.address
        finally:
            server.shutdown()
            thread.join()
