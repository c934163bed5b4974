"""A connected pair of Unix sockets that carries whole messages and file descriptors.

    sender ── [ length u32 | descriptors u8 | payload ] + SCM_RIGHTS ──> receiver

Any thread may send (one lock, one message at a time); one thread receives. End of file means that the other process has
closed its end or is gone: everything it had sent before is received first.
"""

import array
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Sequence

_HEADER = struct.Struct("<IB")
_MAX_FDS = 16


class Channel:
    """One end of a socket pair."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over `sock`, a connected AF_UNIX stream."""
        self._socket = sock
        self._send_lock = threading.Lock()

    @classmethod
    def pair(cls) -> tuple["Channel", socket.socket]:
        """A channel and the other end's socket, to be handed to a child process."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours), theirs

    def fileno(self) -> int:
        """For `multiprocessing.connection.wait`."""
        return self._socket.fileno()

    def send(self, payload: bytes, fds: Sequence[int] = ()) -> None:
        """Send one message whole. Raises BrokenPipeError if the other end is gone."""
        data = memoryview(_HEADER.pack(len(payload), len(fds)) + payload)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with self._send_lock:
            sent = self._socket.sendmsg([data], rights)
            while sent < len(data):
                sent += self._socket.send(data[sent:])

    def receive(self) -> tuple[bytearray, list[int]] | None:
        """The next message and its descriptors (now the caller's to close); None at end of file."""
        head, fds = self._receive_head()
        if head is None:
            return None
        length, count = _HEADER.unpack(head)
        body = bytearray(length)
        if not self._fill(memoryview(body)) or len(fds) != count:
            _close_all(fds)
            return None
        return body, fds

    def close(self) -> None:
        """Close this end; a `receive` that another thread is in returns None."""
        with contextlib.suppress(OSError):  # the other end is already gone
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _receive_head(self) -> tuple[bytes | None, list[int]]:
        """The header and the descriptors that ride on its first byte."""
        try:
            head, fds, _, _ = socket.recv_fds(self._socket, _HEADER.size, _MAX_FDS)
        except OSError:
            return None, []
        for fd in fds:
            os.set_inheritable(fd, False)
        rest = bytearray(_HEADER.size - len(head))
        if not head or not self._fill(memoryview(rest)):
            _close_all(fds)
            return None, []
        return head + bytes(rest), fds

    def _fill(self, view: memoryview) -> bool:
        """Read exactly `len(view)` bytes; False at end of file."""
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError:
                return False
            if count == 0:
                return False
            view = view[count:]
        return True


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
