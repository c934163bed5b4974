"""Download models from the Hugging Face hub, and explain what to do when that fails."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import diffusers
import transformers
from huggingface_hub import constants, hf_hub_download, snapshot_download
from huggingface_hub import errors as hub_errors
from huggingface_hub.utils.tqdm import disable_progress_bars

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.models.content_revision import MODEL_SUFFIXES
from omni_cli.models.hub_commit import ask_commit, is_cached, is_offline
from omni_cli.models.hub_errors import translate_hub_errors
from omni_cli.models.model_defaults import CONFIG_FILES
from omni_cli.models.model_files import CONFIG, remote_code_class
from omni_cli.models.registry import INDEX
from omni_cli.models.user_cards import FOLDER_CARDS
from omni_cli.worker.loader.trust import check_remote_code
from omni_cli.worker.pipeline.library_warnings import LIBRARIES


def download(model: ModelConfig, on_progress: Callable[[str], None]) -> Path:
    """Return the folder of a hub model in the local cache, after downloading the safetensors files that are missing.

    Raises ModelLoadError with what to do about it.
    """
    on_progress(f"files of {model.model}")
    with translate_hub_errors(model.model), hub_or_cache(model.model, model.revision, on_progress):
        if (folder := remote_code_folder(model)) is not None:
            check_remote_code(folder, model)
            patterns = [f"*{suffix}" for suffix in MODEL_SUFFIXES]
            return Path(snapshot_download(model.model, revision=model.revision, allow_patterns=patterns))
        folder = diffusers.DiffusionPipeline.download(
            model.model,
            revision=model.revision,
            variant=model.variant,
            use_safetensors=True,
            trust_remote_code=model.trust_remote_code,
        )
        snapshot_download(model.model, revision=model.revision, allow_patterns=FOLDER_CARDS)  # diffusers leaves it out
        return Path(folder)


def remote_code_folder(model: ModelConfig) -> Path | None:
    """Return the cached folder with the config.json of a hub model that ships its own `generate_image`.

    Returns None for every other model. Downloads model_index.json or config.json.
    """
    try:
        hf_hub_download(model.model, INDEX, revision=model.revision)
    except hub_errors.EntryNotFoundError:
        try:
            folder = Path(hf_hub_download(model.model, CONFIG, revision=model.revision)).parent
        except hub_errors.EntryNotFoundError:
            return None
        return folder if remote_code_class(folder) else None
    return None


def download_index(repo: str, revision: str | None = None) -> Path:
    """Return the cached path of a hub model's model_index.json, with what else planning reads of the model beside it.

    Raises ModelLoadError with what to do about it.
    """
    with translate_hub_errors(repo):
        index = Path(hf_hub_download(repo, INDEX, revision=revision))
        patterns = [FOLDER_CARDS, *(f"*/{name}" for name in CONFIG_FILES)]
        snapshot_download(repo, revision=revision, allow_patterns=patterns)
        return index


@contextmanager
def hub_or_cache(repo: str, revision: str | None, on_progress: Callable[[str], None]) -> Iterator[None]:
    """Use the local cache alone inside the `with` block if the hub does not answer or refuses, and `repo` is there.

    Raises ModelLoadError if it is not.
    """
    if is_offline():
        yield
        return
    try:
        ask_commit(repo, revision)
    except ModelLoadError:
        if not is_cached(repo, revision):
            raise
    else:
        yield
        return
    on_progress(f"{repo} from the local cache")
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = False


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Disable progress bars and printed warnings for the rest of the process, and FutureWarnings for the block.

    Warnings still reach the handler of `library_warnings`.
    """
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    disable_progress_bars()
    diffusers.utils.logging.set_verbosity_warning()
    transformers.utils.logging.set_verbosity_warning()
    for library in LIBRARIES:
        for handler in logging.getLogger(library).handlers:
            if type(handler) is logging.StreamHandler:  # the one that prints; not a subclass of an application
                handler.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
