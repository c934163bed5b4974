"""How a worker reports an exception as data in a message, and how it ends its process early."""

import os
import sys
import traceback
from typing import NoReturn

from omni_cli.errors import ForwardError, OmniGenError, RequestError, UsageError
from omni_cli.transport.messages import USAGE_KIND, RemoteError


def remote_error(error: BaseException) -> RemoteError:
    """Return `error` as data. The message of an exception that is not our own starts with its class name."""
    if isinstance(error, RequestError):
        kind = error.kind
    else:
        kind = USAGE_KIND if isinstance(error, UsageError) else ForwardError.kind
    message = str(error) if isinstance(error, OmniGenError) else f"{type(error).__name__}: {error}"
    return RemoteError(kind=kind, message=message, traceback="".join(traceback.format_exception(error)))


def exit_on_error(error: BaseException) -> NoReturn:
    """Print the traceback and end the process, so that the parent sees a death instead of a hang."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(1)


def exit_process() -> NoReturn:
    """End the process without cleaning up, because the parent is gone: the kernel frees memory and devices."""
    os._exit(0)
