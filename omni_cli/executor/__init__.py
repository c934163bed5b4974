"""Executors: run pipeline calls in worker processes or in this process."""

from omni_cli.config import EngineConfig
from omni_cli.events import Observer
from omni_cli.executor.protocol import Executor, OnFacts, OnPreview


def make_executor(
    engine: EngineConfig,
    observer: Observer,
    on_preview: OnPreview = lambda preview: None,
    on_facts: OnFacts = lambda model, facts: None,
) -> Executor:
    """Start the executor that `engine.executor` names; `on_facts` is called with what each worker loads.

    Raises UsageError if settings contradict each other, EngineError if a worker process cannot be started.
    """
    if engine.executor == "inline":
        # Imported here because it imports torch into this process.
        from omni_cli.executor.inline import InlineExecutor

        return InlineExecutor(engine, observer, on_preview, on_facts)
    # Imported here because a run with nothing to do needs no executor.
    from omni_cli.executor.local import LocalExecutor

    return LocalExecutor(engine, observer, on_preview=on_preview, on_facts=on_facts)
