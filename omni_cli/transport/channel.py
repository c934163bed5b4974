"""A pair of connected Unix sockets that carries whole messages and file descriptors.

    sender ── [ magic 2 | length u32 | descriptors u8 | payload ] + SCM_RIGHTS ──> receiver

Any thread may send (one lock, one message at a time). One thread receives: it waits for the next message (`receive`),
or reads what has arrived (`read_available`, then `messages`), so that a message that never becomes whole does not block
it. End of file means that the other process has closed its end or has exited; everything it sent before is received
first.
"""

import array
import contextlib
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator, Sequence

from omni_cli.errors import ProtocolError

_MAGIC = b"og"
_HEADER = struct.Struct("<2sIB")
_RIGHTS_SPACE = socket.CMSG_SPACE(16 * array.array("i").itemsize)
_CHUNK = 1 << 16


class Channel:
    """One end of a socket pair."""

    def __init__(self, sock: socket.socket) -> None:
        """Take ownership of `sock`, a connected AF_UNIX stream."""
        self._socket = sock
        self._send_lock = threading.Lock()
        self._data = bytearray()
        self._fds: deque[int] = deque()

    @classmethod
    def pair(cls) -> tuple["Channel", socket.socket]:
        """Return a channel and the other end's socket, which a child process can inherit."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours), theirs

    def fileno(self) -> int:
        """Return the descriptor, for `multiprocessing.connection.wait`."""
        return self._socket.fileno()

    def send(self, payload: bytes, fds: Sequence[int] = ()) -> None:
        """Send one message with copies of the descriptors `fds`. Raises BrokenPipeError if the other end is closed."""
        data = memoryview(_HEADER.pack(_MAGIC, len(payload), len(fds)) + payload)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with self._send_lock:
            sent = self._socket.sendmsg([data], rights)
            while sent < len(data):
                sent += self._socket.send(data[sent:])

    def receive(self) -> tuple[bytearray, list[int]] | None:
        """Wait for the next message; return it with its descriptors, which the caller must close, or None at end of
        file.

        Raises ProtocolError if the bytes are not a message.
        """
        while (message := self._next()) is None:
            if not self.read_available(wait=True):
                return None
        return message

    def read_available(self, *, wait: bool = False) -> bool:
        """Read what has arrived, for `messages`; with `wait`, block until there is something. False at end of file."""
        try:
            # Not `socket.recv_fds`, which takes flags and ignores them.
            data, ancillary, _, _ = self._socket.recvmsg(_CHUNK, _RIGHTS_SPACE, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for _, _, rights in ancillary:
            fds = array.array("i")
            fds.frombytes(rights[: len(rights) // fds.itemsize * fds.itemsize])
            for fd in fds:
                os.set_inheritable(fd, False)
            self._fds += fds
        self._data += data
        return bool(data)

    def messages(self) -> Iterator[tuple[bytearray, list[int]]]:
        """Yield the whole messages that have been read, as `receive` returns them. Raises ProtocolError."""
        while (message := self._next()) is not None:
            yield message

    def close(self) -> None:
        """Close this end; a `receive` in another thread returns None."""
        with contextlib.suppress(OSError):  # the other end is closed already
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._send_lock:  # a sender must not find its descriptor's number reused
            self._socket.close()
        while self._fds:
            os.close(self._fds.popleft())

    def _next(self) -> tuple[bytearray, list[int]] | None:
        """Remove the first message from what has been read and return it; None if it is not whole yet.

        The kernel delivers descriptors with the first byte of their message and never merges them with another's, so
        they are in order.
        """
        if len(self._data) < _HEADER.size:
            return None
        magic, length, count = _HEADER.unpack_from(self._data)
        if magic != _MAGIC:
            raise ProtocolError(f"expected a message on the channel, got {bytes(self._data[:40])!r}")
        end = _HEADER.size + length
        if len(self._data) < end:
            return None
        if len(self._fds) < count:
            raise ProtocolError(f"expected {count} descriptors with a message, got {len(self._fds)}")
        body = self._data[_HEADER.size : end]
        del self._data[:end]
        return body, [self._fds.popleft() for _ in range(count)]
