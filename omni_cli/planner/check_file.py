"""Judging a whole prompt file before anything is started."""

from omni_cli.config import EngineConfig, ModelConfig, RunConfig
from omni_cli.models.registry import card_for, peek
from omni_cli.models.source import Form, check_weights, locate, read_index, remote_class
from omni_cli.planner.models import Facts, Look, Models
from omni_cli.planner.plan import Planner
from omni_cli.planner.source import Rows, Source


def from_here(config: RunConfig) -> Look:
    """Looks at models as far as files on this machine tell, without an engine.

    A runner that is not ours brings models and cards of its own: nothing is known of those.
    """
    return _nothing if config.engine.runner != EngineConfig().runner else _look


def check_file(config: RunConfig, source: Source, models: Models | None = None, rows: Rows | None = None) -> int:
    """The number of this run's requests in `source`. Raises PromptFileError with every problem that can be known now.

    `rows`, if given, are the rows of `source`. Of a model without a card, only what the file itself says can be judged.
    """
    models = models or Models(config.model, source.base, from_here(config))
    return Planner(config, models, source.base).check_all(source.rows() if rows is None else rows)


def _nothing(model: ModelConfig) -> Facts:
    return Facts(None)


def _look(model: ModelConfig) -> Facts:
    """The card, if there is one. A model that a row names must be there; that of the command line is the engine's to judge."""
    if model.name is not None:
        found = locate(model)
        if found.form is Form.FOLDER and found.path is not None and remote_class(found.path) is None:
            check_weights(found.path, read_index(found.path, model.model), model.model)
    pipeline = peek(model)
    return Facts(card_for(pipeline, model) if pipeline else None)
