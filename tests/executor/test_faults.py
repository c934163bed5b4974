"""What a worker says of an error is that error again in the parent."""

import pytest

from omni_cli.errors import ForwardError, RequestError
from omni_cli.executor.faults import PoisonousRequest, request_error
from omni_cli.transport.messages import RemoteError


@pytest.mark.parametrize("kind", [PoisonousRequest, *RequestError.__subclasses__()], ids=lambda kind: kind.__name__)
def test_every_kind_comes_back_as_itself(kind: type[RequestError]) -> None:
    raised = request_error(RemoteError(kind=kind.kind, message="why", traceback="Traceback: where"), 3)
    assert type(raised) is kind
    assert (str(raised), raised.attempts) == ("why", 3)
    assert "Traceback: where" in str(raised.__cause__)


def test_a_kind_that_is_not_known_is_a_forward_that_failed() -> None:
    assert type(request_error(RemoteError(kind="odd", message="", traceback=""), 1)) is ForwardError
