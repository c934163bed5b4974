"""Jobs of one request, one after the other, on threads that many requests share."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Lane:
    """Order within, none between lanes: a lane without a job holds no thread."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        """No job yet."""
        self._threads = threads
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = False

    def do(self, job: Callable[[], None]) -> None:
        """Run `job`, which must not raise, when those before it are over. RuntimeError if the threads have been shut down."""
        with self._lock:
            if not self._running:
                self._threads.submit(self._run)
                self._running = True
            self._jobs.append(job)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._running = False
                    return
                job = self._jobs.popleft()
            job()
