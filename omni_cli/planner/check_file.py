"""Judging a whole prompt file before anything is started."""

from omni_cli.config import EngineConfig, RunConfig
from omni_cli.models.cards import Card
from omni_cli.models.registry import card_for, peek
from omni_cli.planner.plan import Planner
from omni_cli.planner.source import Rows, Source


def known_card(config: RunConfig) -> Card | None:
    """The card of the model, if it is known without loading: another runner than ours brings a card of its own."""
    if config.engine.runner != EngineConfig().runner:
        return None
    pipeline = peek(config.model)
    return card_for(pipeline, config.model) if pipeline else None


def check_file(config: RunConfig, source: Source, rows: Rows | None = None) -> int:
    """The number of this run's requests in `source`. Raises PromptFileError with every problem that can be known now.

    `rows`, if given, are the rows of `source`. Without a card, only what the file itself says can be judged.
    """
    rows = source.rows() if rows is None else rows
    card = known_card(config)
    return Planner.count_all(config, rows) if card is None else Planner(config, card, base=source.base).check_all(rows)
