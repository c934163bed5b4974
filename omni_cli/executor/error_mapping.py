"""Convert between errors: from a worker's message to an exception, and from a library's exception to one of ours."""

from typing import TypeVar

from omni_cli.errors import ForwardError, ModelLoadError, OmniGenError, RequestError, UsageError
from omni_cli.models.cards import Card
from omni_cli.request import ModelInfo
from omni_cli.text import quote
from omni_cli.transport.messages import USAGE_KIND, Loaded, RemoteError

E = TypeVar("E", bound=OmniGenError)

_PLANNED = [name for name in Card.__struct_fields__ if name not in ("output_type", "processors", "latent_rgb")]
"""Fields of a card that planning uses."""


class RemoteTraceback(Exception):
    """The cause of an exception that was raised in a worker: its text is the worker's own traceback."""

    def __str__(self) -> str:
        """Return the remote traceback, set off from the local one."""
        return f"\n\n{self.args[0]}"


class RequestKilledWorker(RequestError):
    """The request was running each time a worker died, too often to try again."""

    kind = "worker_died"


_KINDS: dict[str, type[RequestError]] = {kind.kind: kind for kind in RequestError.__subclasses__()}
"""Exception class by `error.kind`, for every request error there is."""


def to_request_error(error: RemoteError, attempts: int) -> RequestError:
    """Return the exception for a request that failed in a worker at its `attempts`-th forward."""
    return with_cause(_KINDS.get(error.kind, ForwardError)(error.message, attempts), RemoteTraceback(error.traceback))


def to_load_error(error: RemoteError) -> OmniGenError:
    """Return the exception for a model that a worker cannot load: UsageError if a setting is the reason."""
    exception = UsageError(error.message) if error.kind == USAGE_KIND else ModelLoadError(error.message)
    return with_cause(exception, RemoteTraceback(error.traceback))


def wrap_request_error(error: Exception) -> RequestError:
    """Return a request error as it is, any other exception as the cause of a ForwardError."""
    if isinstance(error, RequestError):
        return error
    return with_cause(ForwardError(f"{type(error).__name__}: {error}"), error)


def wrap_load_error(error: Exception) -> OmniGenError:
    """Return an error of this package as it is, any other exception as the cause of a ModelLoadError."""
    if isinstance(error, OmniGenError):
        return error
    return with_cause(ModelLoadError(f"{type(error).__name__}: {error}"), error)


def changed_facts(expected: Loaded, loaded: Loaded) -> str:
    """Return how the facts of a loaded model differ from those expected, to follow the worker's name; "" if they agree.

    Compares what planning uses: workers may have different devices, and how they get at the output is their own.
    """
    pairs = [(name, getattr(expected.info, name), getattr(loaded.info, name)) for name in ModelInfo.__struct_fields__]
    pairs += [(name, expected.versions.get(name), version) for name, version in loaded.versions.items()]
    pairs += [(name, getattr(expected.card, name), getattr(loaded.card, name)) for name in _PLANNED]
    changes = [f"{name}: {quote(str(old))} → {quote(str(new))}" for name, old, new in pairs if old != new]
    if not changes:
        return ""
    return (
        f"loaded another model than the one it identified ({'; '.join(changes)}): its files, or the devices and"
        " packages here, have changed meanwhile; run the same command again"
    )


def with_cause(exception: E, cause: BaseException) -> E:
    """Set the cause of `exception`, as `raise ... from` does, and return it."""
    exception.__cause__ = cause
    return exception
