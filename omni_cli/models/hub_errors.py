"""What to do about the errors of the Hugging Face hub. Importing this imports huggingface_hub, which takes 0.2 s."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import errors as hub_errors

from omni_cli.errors import HubUnreachable, ModelLoadError
from omni_cli.models.registry import INDEX

UNREACHABLE = (ConnectionError, TimeoutError, socket.gaierror)
"""Causes of errors when the network or the hub is down."""


_UNREACHABLE_ADVICE = f"the hub cannot be reached, and the model is not in the local cache: {HubUnreachable.remedy}"

_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (hub_errors.GatedRepoError, "the model is gated: accept its terms on its page, then `hf auth login`"),
    (hub_errors.RevisionNotFoundError, "there is no such revision: check --revision"),
    (hub_errors.RepositoryNotFoundError, "there is no such model on the hub; if it is private, `hf auth login` first"),
    (hub_errors.HFValidationError, 'this is not a hub id: it must look like "owner/name"'),
    (
        hub_errors.OfflineModeIsEnabled,
        "it is not in the local cache and HF_HUB_OFFLINE is set: unset it, or download the model first",
    ),
    (hub_errors.LocalEntryNotFoundError, _UNREACHABLE_ADVICE),
    (hub_errors.EntryNotFoundError, f"it has no {INDEX}, so it is not a diffusers pipeline"),
    (hub_errors.HfHubHTTPError, "the hub refused the request"),
    *((kind, _UNREACHABLE_ADVICE) for kind in UNREACHABLE),
)
"""Advice per exception class, most specific first; the first row that matches an error or one of its causes applies."""


@contextmanager
def translate_hub_errors(name: str) -> Iterator[None]:
    """Turn the errors of the hub's libraries into ModelLoadError with what to do about it."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"--model {name!r}: {hub_advice(error)}") from error


def hub_advice(error: BaseException) -> str:
    """Return the advice for `error` or the first of its causes that has one, else the error's own text."""
    found = list(causes(error))
    for kind, advice in _ADVICE:
        if any(isinstance(cause, kind) for cause in found):
            return advice
    text = str(error)
    if "trust_remote_code" in text:
        return "it comes with its own code; read it, and if you trust it pass --trust-remote-code"
    if "safetensors" in text:
        return f"it has no .safetensors weights, and pickles can run code when they are read ({text})"
    return text


def causes(error: BaseException | None, seen: set[int] | None = None) -> Iterator[BaseException]:
    """Yield `error` and everything reachable by __cause__ and __context__, which a re-raise in a library may split."""
    seen = set() if seen is None else seen
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    yield from causes(error.__cause__, seen)
    yield from causes(error.__context__, seen)
