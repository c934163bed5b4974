"""What a worker does when something raised: tell it as data, or leave."""

import os
import sys
import traceback
from typing import NoReturn

from omni_cli.errors import ForwardError, OmniGenError, RequestError, UsageError
from omni_cli.transport.messages import USAGE_KIND, RemoteError


def remote_error(error: BaseException) -> RemoteError:
    """`error` as data. One of ours speaks for itself; a foreign one gets its class name in front."""
    text = str(error) if isinstance(error, OmniGenError) else f"{type(error).__name__}: {error}"
    return RemoteError(kind=_kind(error), message=text, traceback="".join(traceback.format_exception(error)))


def give_up(error: BaseException) -> NoReturn:
    """End the process because one of its threads cannot go on: the parent sees a death with this traceback, not a hang."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(1)


def _kind(error: BaseException) -> str:
    if isinstance(error, RequestError):
        return error.kind
    return USAGE_KIND if isinstance(error, UsageError) else ForwardError.kind
