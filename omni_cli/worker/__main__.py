"""The worker program: `python -m omni_cli.worker FD`, with FD the worker's end of the channel.

    main thread       Hello ─> import torch ─> serve the channel (see `process`)
    lifeline thread   waits until the parent closes the channel ─> exits the process, whatever the other threads do

A program of its own, rather than a fork or a re-import of the caller's `__main__`, works from scripts without a main
guard and from notebooks. Hello is sent before torch is imported, so that a slow import is visible.
"""

import faulthandler
import os
import select
import signal
import socket
import sys
import threading

from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import Hello, LoadProgress, encode


def main(fd: int) -> None:
    """Serve the channel until it delivers Shutdown or is closed, then exit the process."""
    faulthandler.enable()
    _ignore_stop_signals()
    os.set_inheritable(fd, False)
    channel = Channel(socket.socket(fileno=fd))
    threading.Thread(target=_exit_with_parent, args=(fd,), name="lifeline", daemon=True).start()
    channel.send(encode(Hello(pid=os.getpid())))
    channel.send(encode(LoadProgress(what="torch")))
    # Imports torch, so it comes after Hello.
    from omni_cli.worker.process import serve

    serve(channel)
    # Skip the interpreter's shutdown: outputs are sent, the model is released, and tearing down torch takes a second.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _ignore_stop_signals() -> None:
    """Do nothing on SIGINT, SIGTERM and SIGHUP: schedulers send them to every process of a job, the parent decides.

    The signals are handled rather than ignored, because child processes of the pipeline would inherit ignored ones.
    Those that this process has inherited as ignored stay so.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


def _exit_with_parent(fd: int) -> None:
    """Exit the process when the parent's end of the channel is closed.

    The inbox sees that as well, but does not read while torch or a runner is being imported.
    """
    poll = select.poll()
    poll.register(fd, 0)  # POLLHUP is always reported
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
