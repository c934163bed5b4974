"""Entry of a worker process: `python -m omni_cli.worker FD`, FD being its end of the channel.

    lifeline thread   waits for the channel to hang up, whatever the other threads are in: the parent is gone, and so is this

A program of its own and not a fork or a re-import of the caller's `__main__`: it works from a script without a main guard
and from a notebook alike. It says Hello before torch is imported, so that a slow start shows itself.
"""

import faulthandler
import os
import select
import signal
import socket
import sys
import threading

from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import Hello, Loading, encode


def main(fd: int) -> None:
    """Serve the channel until it says Shutdown or closes."""
    faulthandler.enable()
    _leave_stopping_to_the_parent()
    os.set_inheritable(fd, False)
    channel = Channel(socket.socket(fileno=fd))
    threading.Thread(target=_leave_with_parent, args=(fd,), name="lifeline", daemon=True).start()
    channel.send(encode(Hello(pid=os.getpid())))
    channel.send(encode(Loading(what="torch")))
    # After Hello, because this imports torch.
    from omni_cli.worker.process import serve

    serve(channel)
    # The outputs are sent and the model is dropped; what is left is the interpreter's taking torch apart, which takes a second.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _leave_stopping_to_the_parent() -> None:
    """Let SIGINT and SIGTERM pass: schedulers send them to every process of a job, and the parent finishes what is computed.

    Handled and not ignored, because programs that a pipeline starts would inherit that.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)


def _leave_with_parent(fd: int) -> None:
    """End the process when the parent's end of the channel is closed.

    The inbox sees that end too, but only once it reads: not while torch, or a runner's library, is being imported.
    """
    line = select.poll()
    line.register(fd, 0)  # a hang-up is told without being asked for
    line.poll()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
