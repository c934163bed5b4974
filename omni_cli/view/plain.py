"""`--progress plain`: one line at a time, no escape sequences: for logs, CI and terminals that cannot draw."""

from omni_cli.events import AnyEvent, ForwardStep
from omni_cli.view import text
from omni_cli.view.board import Board
from omni_cli.view.loop import Loop
from omni_cli.view.outlet import Outlet
from omni_cli.view.snapshot import Line, Snapshot
from omni_cli.view.summary import facts, headline

EVERY_S = 5.0
SPACING_S = 0.1
MAX_CHARACTERS = 1000
_LEVELS = {"loading": "", "ready": "", "info": "", "warning": "warning: ", "error": "error: "}


class PlainView:
    """Writes what `board` has to say: the first result at once, then progress at most every `EVERY_S` seconds."""

    def __init__(self, board: Board, outlet: Outlet) -> None:
        """Write to `outlet`."""
        self._board = board
        self._outlet = outlet
        self._said_start = False
        self._said_finished = 0
        self._said_at = 0.0
        self._said_loading: set[str] = set()
        self._loop = Loop(self._step, spacing=SPACING_S, name="view-plain")

    def __call__(self, event: AnyEvent) -> None:
        """Let the writing thread look at the board, if the event may bring a line."""
        if not isinstance(event, ForwardStep):
            self._loop.wake()

    def close(self) -> None:
        """Write the rest and the summary."""
        self._loop.close()
        now = self._board.snapshot()
        self._say_lines(now)
        if now.started is None or now.ended is None:
            return
        self._say(f"finished: {headline(now)}")
        if now.ended.reason:
            self._say(f"reason: {now.ended.reason}")
        rows = facts(now)
        spent = "; ".join(f"{fact.label} {fact.value}" for fact in rows if fact.label != "files")
        if spent:
            self._say(spent)
        for fact in rows:
            if fact.label == "files":
                self._say(f"files in {fact.value}")

    def _step(self) -> float | None:
        now = self._board.snapshot()
        self._say_lines(now)
        if now.finished == self._said_finished or now.left == 0:
            return None
        wait = self._said_at + EVERY_S - now.now
        if self._said_finished and wait > 0:
            return wait
        self._say(progress(now))
        self._said_finished, self._said_at = now.finished, now.now
        return None

    def _say_lines(self, now: Snapshot) -> None:
        if now.started is not None and not self._said_start:
            self._said_start = True
            self._say(opening(now))
        for line in self._board.take_lines():
            if self._is_new(line):
                self._say(_LEVELS[line.kind] + line.text)

    def _is_new(self, line: Line) -> bool:
        """A part that loads with a running count is said once per wording, up to a bound."""
        if line.kind != "loading":
            return True
        if line.text in self._said_loading or len(self._said_loading) > 100:
            return False
        self._said_loading.add(line.text)
        return True

    def _say(self, line: str) -> None:
        whole = f"omni-gen: {text.printable(line)}"
        self._outlet.write((whole if len(whole) <= MAX_CHARACTERS else whole[: MAX_CHARACTERS - 3] + "...") + "\n")


def opening(now: Snapshot) -> str:
    """What is about to be done."""
    amount = f"{now.total} request{'' if now.total == 1 else 's'}" if now.total is not None else "requests"
    skipped = f", {now.skipped} already done" if now.skipped else ""
    return f"{amount} to render with {now.model}{skipped}"


def progress(now: Snapshot) -> str:
    """`12/100 done, 1 failed, 3.4/s, ETA 26 s`."""
    parts = [f"{now.done}/{now.total} done" if now.total is not None else f"{now.done} done"]
    if now.failed:
        parts.append(f"{now.failed} failed")
    if now.cancelled:
        parts.append(f"{now.cancelled} cancelled")
    if now.per_second:
        parts.append(text.rate(now.per_second))
    if now.eta is not None:
        parts.append(f"ETA {text.seconds(now.eta)}")
    return ", ".join(parts)
