"""The shape of a request."""

import msgspec

from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.shape import Setup, Shape, Size


def test_nearness_ranks_a_size_below_adapters_below_a_model() -> None:
    here = Setup("A", (), Size(64, 64, 1))
    others = [
        here,
        here._replace(size=Size(32, 64, 1)),
        here._replace(adapters=(("x", 1.0),)),
        here._replace(model="B"),
    ]
    assert [here.nearness(other) for other in others] == [3, 2, 1, 0]


def test_shape_survives_encoding() -> None:
    shape = Shape(Setup("A", (("x", 0.5),), Size(64, None, 9)), "key")
    planned = PlannedRequest(
        request=GenerationRequest(id="a"), index=0, seeds=(), files=(), fingerprint="", shape=shape
    )
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(planned), type=PlannedRequest)
    assert decoded == planned
    assert isinstance(decoded.shape.size, Size)
