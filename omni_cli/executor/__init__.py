"""Executors: where pipeline calls run. `make_executor` picks one by its name in the settings."""

from omni_cli.config import EngineConfig
from omni_cli.events import Observer
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.protocol import Executor, OnPreview


def make_executor(engine: EngineConfig, observer: Observer, on_preview: OnPreview = lambda preview: None) -> Executor:
    """A started executor of the kind that `engine.executor` names. Raises UsageError for settings that contradict each other."""
    if engine.executor == "inline":
        # Imports torch into this process, which only this choice asks for.
        from omni_cli.executor.inline import InlineExecutor

        return InlineExecutor(engine, observer, on_preview)
    return LocalExecutor(engine, observer, on_preview=on_preview)
