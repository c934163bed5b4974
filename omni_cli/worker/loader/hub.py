"""Models on the hub: bring the files here, or say why they cannot be had and what to do."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import diffusers
from huggingface_hub import errors as hub_errors
from huggingface_hub import hf_hub_download, snapshot_download

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.models.registry import INDEX
from omni_cli.models.source import CONFIG, remote_class
from omni_cli.worker.loader.code import check_remote
from omni_cli.worker.loader.fingerprint import SUFFIXES

# The first row that fits an error or one of its causes, most precise first.
_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (hub_errors.GatedRepoError, "the model is gated: accept its terms on its page, then `hf auth login`"),
    (hub_errors.RevisionNotFoundError, "there is no such revision: check --revision"),
    (hub_errors.RepositoryNotFoundError, "there is no such model on the hub; if it is private, `hf auth login` first"),
    (hub_errors.HFValidationError, 'this is not a hub id: it must look like "owner/name"'),
    (
        hub_errors.OfflineModeIsEnabled,
        "it is not in the local cache and HF_HUB_OFFLINE is set: unset it, or download it first",
    ),
    (
        hub_errors.LocalEntryNotFoundError,
        "it is not in the local cache and the hub cannot be reached: check the network",
    ),
    (hub_errors.EntryNotFoundError, f"it has no {INDEX}, so it is not a diffusers pipeline"),
    (hub_errors.HfHubHTTPError, "the hub refused the request"),
    (ConnectionError, "the hub cannot be reached: check the network, or give --model a local folder"),
    (socket.gaierror, "the hub cannot be reached: check the network, or give --model a local folder"),
)


def download(model: ModelConfig, report: Callable[[str], None]) -> Path:
    """Folder of the hub model in the local cache, downloaded as far as it is missing; safetensors only."""
    report(f"files of {model.model}")
    with explained(model.model):
        if (folder := remote_folder(model)) is not None:
            check_remote(folder, model)
            patterns = [f"*{suffix}" for suffix in SUFFIXES]
            return Path(snapshot_download(model.model, revision=model.revision, allow_patterns=patterns))
        return Path(
            diffusers.DiffusionPipeline.download(
                model.model,
                revision=model.revision,
                variant=model.variant,
                use_safetensors=True,
                trust_remote_code=model.trust_remote_code,
            )
        )


def remote_folder(model: ModelConfig) -> Path | None:
    """Where config.json lies of a hub model that brings code of its own and is no diffusers pipeline; None for any other."""
    try:
        hf_hub_download(model.model, INDEX, revision=model.revision)
    except hub_errors.EntryNotFoundError:
        try:
            folder = Path(hf_hub_download(model.model, CONFIG, revision=model.revision)).parent
        except hub_errors.EntryNotFoundError:
            return None
        return folder if remote_class(folder) else None
    return None


def index_file(repo: str, revision: str | None = None) -> Path:
    """The model_index.json of a hub model."""
    with explained(repo):
        return Path(hf_hub_download(repo, INDEX, revision=revision))


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what the hub's libraries raise into ModelLoadError with what to do."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"--model {name!r}: {_advice(error)}") from error


def _advice(error: BaseException) -> str:
    """Our advice for `error`, judged by itself and all its causes; its own text where we have none."""
    links = list(_links(error, set()))
    for kind, advice in _ADVICE:
        if any(isinstance(link, kind) for link in links):
            return advice
    text = str(error)
    if "trust_remote_code" in text:
        return "it brings code of its own; read it, and if you trust it pass --trust-remote-code"
    if "safetensors" in text:
        return f"it has no .safetensors weights, and pickles can run code when they are read ({text})"
    return text


def _links(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """`error` and everything it came from: both its cause and its context, which a library's re-raise may part."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    yield from _links(error.__cause__, seen)
    yield from _links(error.__context__, seen)
