"""`--print`: the files or the manifest rows on stdout, as results appear."""

import os
import posixpath
from collections.abc import Callable
from typing import Literal

from omni_cli.events import AnyEvent, RequestFinished, RunStarted
from omni_cli.view.jsonl import json_line

DataMode = Literal["paths", "json"]


class DataPrinter:
    """Turns finished requests into lines: the path of each file of a done one, or the row of any."""

    def __init__(self, mode: DataMode, put: Callable[[bytes], None]) -> None:
        """Hand each line, without its end, to `put`."""
        self._mode = mode
        self._put = put
        self._output_dir = ""

    def __call__(self, event: AnyEvent) -> None:
        """Print what the event brings."""
        match event:
            case RunStarted():
                self._output_dir = event.output_dir
            case RequestFinished() if self._mode == "json":
                self._put(json_line(event.result))
            case RequestFinished() if event.result.status == "done":
                for file in event.result.files:
                    self._put(os.fsencode(posixpath.join(self._output_dir, file.path)))
            case _:
                pass
