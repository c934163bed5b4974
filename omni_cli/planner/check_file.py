"""Check a whole prompt file before anything is started."""

from functools import partial

from omni_cli.config import EngineConfig, ModelConfig, RunConfig
from omni_cli.models.model_files import ModelForm, check_weights, locate, read_index, remote_code_class
from omni_cli.models.model_files import check_file as check_single_file
from omni_cli.models.registry import card_from_source, known_card, local_pipeline_class
from omni_cli.planner.facts import KnownFacts
from omni_cli.planner.models import ModelFacts, ModelLookup, Models
from omni_cli.planner.plan import Planner
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.prompts.row import Rows


def local_lookup(config: RunConfig, known: KnownFacts | None = None) -> ModelLookup:
    """Return a lookup that reads files on this machine, and what is `known` of them, and starts no engine.

    It knows nothing of the models and cards that a runner other than ours brings.
    """
    if config.engine.runner != EngineConfig().runner:
        return lambda model: ModelFacts(None)
    return partial(_local_facts, known or KnownFacts(config.engine))


def check_file(config: RunConfig, source: PromptSource, models: Models | None = None, rows: Rows | None = None) -> int:
    """Return the number of this run's requests in `source`; `rows` stand for those of `source` if given.

    Requests of a model without a card are checked by the file alone. Raises PromptFileError with every problem.
    """
    models = models or Models(config.model, source.base, local_lookup(config))
    return Planner(config, models, source.base).check_all(source.rows() if rows is None else rows)


def _local_facts(known: KnownFacts, model: ModelConfig) -> ModelFacts:
    """Return the model's card, if known. Raises ModelLoadError for a model that is not there or has damaged files."""
    files = locate(model)
    is_of_other_class = model.pipeline is not None or model.custom_pipeline is not None
    if files.form is ModelForm.FILE and files.path is not None:
        check_single_file(files.path, model.model)
    if files.form is ModelForm.FOLDER and files.path is not None and remote_code_class(files.path) is None:
        index = read_index(files.path, model.model)
        if not is_of_other_class:  # another class may need fewer components
            check_weights(files.path, index, model.model, model.variant, frozenset(model.tuning.components))
    loaded = known.look_up(model, quick=True)
    if loaded is not None:
        return ModelFacts(loaded.card)
    pipeline = local_pipeline_class(model)
    return ModelFacts((card_from_source(pipeline, model) or known_card(pipeline, model)) if pipeline else None)
