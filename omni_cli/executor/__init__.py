"""Executors: where pipeline calls run. `make_executor` picks one by its name in the settings."""

from omni_cli.config import EngineConfig
from omni_cli.events import Observer
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.protocol import Executor


def make_executor(engine: EngineConfig, observer: Observer) -> Executor:
    """A started executor of the kind that `engine.executor` names."""
    if engine.executor == "inline":
        # Imports torch into this process, which only this choice asks for.
        from omni_cli.executor.inline import InlineExecutor

        return InlineExecutor(engine, observer)
    return LocalExecutor(engine, observer)
