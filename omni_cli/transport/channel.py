"""A connected pair of Unix sockets that carries whole messages and file descriptors.

    sender ── [ magic 2 | length u32 | descriptors u8 | payload ] + SCM_RIGHTS ──> receiver

Any thread may send (one lock, one message at a time); one thread receives, either waiting for the next message (`receive`)
or taking in what is there (`take_in`, then `messages`), so that one that never becomes whole holds nobody up. End of file
means that the other process has closed its end or is gone: everything it had sent before is received first.
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
        """Take over `sock`, a connected AF_UNIX stream."""
        self._socket = sock
        self._send_lock = threading.Lock()
        self._data = bytearray()
        self._fds: deque[int] = deque()

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
        data = memoryview(_HEADER.pack(_MAGIC, len(payload), len(fds)) + payload)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with self._send_lock:
            sent = self._socket.sendmsg([data], rights)
            while sent < len(data):
                sent += self._socket.send(data[sent:])

    def receive(self) -> tuple[bytearray, list[int]] | None:
        """Wait for the next message: it and its descriptors (now the caller's to close); None at end of file.

        Raises ProtocolError if what came is not a message.
        """
        while (message := self._next()) is None:
            if not self.take_in(wait=True):
                return None
        return message

    def take_in(self, *, wait: bool = False) -> bool:
        """Read what has arrived, for `messages`; False at end of file. `wait`: until there is something."""
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
        """The whole messages among what was taken in, as `receive` gives them. Raises ProtocolError."""
        while (message := self._next()) is not None:
            yield message

    def close(self) -> None:
        """Close this end; a `receive` that another thread is in returns None."""
        with contextlib.suppress(OSError):  # the other end is already gone
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._send_lock:  # a sender must not find its descriptor's number reused
            self._socket.close()
        while self._fds:
            os.close(self._fds.popleft())

    def _next(self) -> tuple[bytearray, list[int]] | None:
        """Cut the first message off what was taken in; None if it is not whole yet.

        Descriptors ride on a message's first byte and are never glued to another's, so they are there in order.
        """
        if len(self._data) < _HEADER.size:
            return None
        magic, length, count = _HEADER.unpack_from(self._data)
        if magic != _MAGIC:
            raise ProtocolError(f"the channel carries something that is not a message: {bytes(self._data[:40])!r}")
        end = _HEADER.size + length
        if len(self._data) < end:
            return None
        if len(self._fds) < count:
            raise ProtocolError(f"a message came with {len(self._fds)} descriptors of {count}")
        body = self._data[_HEADER.size : end]
        del self._data[:end]
        return body, [self._fds.popleft() for _ in range(count)]
