"""The one table from an error's kind on the wire back to an exception."""

from omni_cli.errors import (
    ForwardError,
    MediaContractError,
    ModelLoadError,
    OutputTimeout,
    RequestCancelled,
    RequestError,
    WriteError,
)
from omni_cli.transport.messages import RemoteError


class RemoteTraceback(Exception):
    """Cause of an exception that was raised in a worker: its text is the worker's own traceback."""

    def __str__(self) -> str:
        """The remote traceback, set off from the local one."""
        return f"\n\n{self.args[0]}"


class PoisonousRequest(RequestError):
    """The worker died twice while this request was running."""

    kind = "worker_died"


_KINDS: dict[str, type[RequestError]] = {
    kind.kind: kind
    for kind in (ForwardError, MediaContractError, WriteError, OutputTimeout, RequestCancelled, PoisonousRequest)
}


def request_error(error: RemoteError) -> RequestError:
    """The exception that fails a request, with the remote traceback as its cause."""
    exception = _KINDS.get(error.kind, ForwardError)(error.message)
    exception.__cause__ = RemoteTraceback(error.traceback)
    return exception


def load_error(error: RemoteError) -> ModelLoadError:
    """The exception that ends a run whose model cannot be loaded."""
    exception = ModelLoadError(error.message)
    exception.__cause__ = RemoteTraceback(error.traceback)
    return exception
