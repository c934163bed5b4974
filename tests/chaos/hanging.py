"""A runner whose forward or output hangs, each time that a file asks for it."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from omni_cli.media import Media
from omni_cli.request import PlannedRequest
from omni_cli.worker.null import NullRunner

VARIABLE = "OMNI_CHAOS_HANGS"
"""Environment variable with the folder where FORWARD and OUTPUT are looked for; the one that is found is removed."""

FORWARD, OUTPUT = "forward", "output"


class HangingTensor(torch.Tensor):
    """Pixels that never arrive: whatever a thread other than the main one does with them does not return."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Apply `func`, or hang."""
        if threading.current_thread() is not threading.main_thread():
            time.sleep(3600)
        return super().__torch_function__(func, types, args, kwargs or {})


class HangingRunner(NullRunner):
    """Hangs as a broken driver does: in a forward, or in the copy of an output whose forward is over."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> list[Media]:
        """Return grey pictures, unless a file asks for a fault."""
        if _take(FORWARD):
            time.sleep(3600)
        medias = super().execute_model(requests, on_step, is_cancelled)
        if _take(OUTPUT):
            medias = [replace(media, data=media.data.as_subclass(HangingTensor)) for media in medias]
        return medias


def _take(name: str) -> bool:
    """Remove the file `name`; return False if another worker has taken it, or it is not there."""
    try:
        Path(os.environ[VARIABLE], name).unlink()
    except FileNotFoundError:
        return False
    return True
