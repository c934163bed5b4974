"""What crosses to the parent when something raised: a kind, a text, and the remote traceback."""

import traceback

from omni_cli.errors import ForwardError, OmniGenError, RequestError
from omni_cli.transport.messages import RemoteError


def remote_error(error: BaseException) -> RemoteError:
    """`error` as data. One of ours speaks for itself; a foreign one gets its class name in front."""
    kind = error.kind if isinstance(error, RequestError) else ForwardError.kind
    text = str(error) if isinstance(error, OmniGenError) else f"{type(error).__name__}: {error}"
    return RemoteError(kind=kind, message=text, traceback="".join(traceback.format_exception(error)))
