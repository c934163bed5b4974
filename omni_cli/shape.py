"""The shape of a request: what a worker sets up to render it, and what decides which requests share a pipeline call.

The planner computes it once per request (`planner.batches.shape_of`). Batches, the order of calls, the auto batch size,
the out-of-memory ladder and the dry run all read it from `PlannedRequest.shape`.
"""

from typing import NamedTuple

import msgspec


class Size(NamedTuple):
    """Height and width in pixels and the number of frames of one output: what the memory of a sample depends on.

    None where the pipeline will choose it.
    """

    height: int | None = None
    width: int | None = None
    num_frames: int | None = None


class Setup(NamedTuple):
    """What a worker prepares before a call: the model's key, adapters as (path, weight), and the size of an output.

    Another model costs a load, other adapters a pass over the weights, another size a compilation or an autotuning.
    """

    model: str | None = None
    adapters: tuple[tuple[str, float], ...] = ()
    size: Size = Size()

    def nearness(self, other: "Setup") -> int:
        """Return how little a switch to `other` costs: 3 nothing, 2 another size, 1 other adapters, 0 another model."""
        if self == other:
            return 3
        return 0 if self.model != other.model else 2 if self.adapters == other.adapters else 1


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """The setup of a request and its batch key.

    Requests with the same `batch_key` may share a pipeline call, and the samples of one such request do. The key is a
    hash of everything that a call has once, the setup included. It is "" for a request whose samples must each have
    their own call.
    """

    setup: Setup = Setup()
    batch_key: str = ""

    @property
    def size(self) -> Size:
        """The size of one output."""
        return self.setup.size
