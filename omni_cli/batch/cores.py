"""Threads that work beside the forward and may need the cores it runs on."""

import os
import sys
import threading

_BACKGROUND_NICENESS = 5


def yield_cores() -> None:
    """Let this thread run behind the forward. Linux gives each thread a niceness of its own; elsewhere nothing changes.

    A run that was started nicer than that stays as it is: only root may become less nice, and nobody has asked for it.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = max(_BACKGROUND_NICENESS, os.getpriority(os.PRIO_PROCESS, thread))
        os.setpriority(os.PRIO_PROCESS, thread, niceness)
