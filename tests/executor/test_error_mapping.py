"""A worker's error becomes the same exception in the parent."""

import pytest

from omni_cli.errors import ForwardError, RequestError
from omni_cli.executor.error_mapping import RequestKilledWorker, to_request_error
from omni_cli.transport.messages import RemoteError


@pytest.mark.parametrize("kind", [RequestKilledWorker, *RequestError.__subclasses__()], ids=lambda kind: kind.__name__)
def test_every_kind_becomes_its_own_class(kind: type[RequestError]) -> None:
    raised = to_request_error(RemoteError(kind=kind.kind, message="why", traceback="Traceback: where"), 3)
    assert type(raised) is kind
    assert (str(raised), raised.attempts) == ("why", 3)
    assert "Traceback: where" in str(raised.__cause__)


def test_unknown_kind_becomes_a_forward_error() -> None:
    assert type(to_request_error(RemoteError(kind="odd", message="", traceback=""), 1)) is ForwardError
