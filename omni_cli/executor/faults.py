"""From an error's kind on the wire back to an exception, and from what a library raised to one of ours."""

from omni_cli.errors import ForwardError, ModelLoadError, OmniGenError, RequestCancelled, RequestError, UsageError
from omni_cli.transport.messages import USAGE_KIND, RemoteError


class RemoteTraceback(Exception):
    """Cause of an exception that was raised in a worker: its text is the worker's own traceback."""

    def __str__(self) -> str:
        """The remote traceback, set off from the local one."""
        return f"\n\n{self.args[0]}"


class PoisonousRequest(RequestError):
    """Workers died again and again while this request was running."""

    kind = "worker_died"


_KINDS: dict[str, type[RequestError]] = {kind.kind: kind for kind in RequestError.__subclasses__()}
"""Every kind there is: one that is added to `errors` is known here."""


def remote_cause(error: RemoteError) -> RemoteTraceback:
    """What an exception made from `error` has as its cause."""
    return RemoteTraceback(error.traceback)


def request_error(error: RemoteError, attempts: int) -> RequestError:
    """The exception that fails a request at its `attempts`-th forward, with the remote traceback as its cause."""
    exception = _KINDS.get(error.kind, ForwardError)(error.message, attempts)
    exception.__cause__ = remote_cause(error)
    return exception


def load_error(error: RemoteError) -> OmniGenError:
    """The exception that ends a run whose model cannot be loaded: UsageError if a setting is to blame."""
    exception = UsageError(error.message) if error.kind == USAGE_KIND else ModelLoadError(error.message)
    exception.__cause__ = remote_cause(error)
    return exception


def as_request_error(error: Exception) -> RequestError:
    """Ours as they are; a foreign one becomes a ForwardError that it is the cause of."""
    if isinstance(error, RequestError | RequestCancelled):
        return error
    failure = ForwardError(f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def as_load_error(error: Exception) -> OmniGenError:
    """Ours as they are; a foreign one becomes a ModelLoadError that it is the cause of."""
    if isinstance(error, OmniGenError):
        return error
    failure = ModelLoadError(f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
