"""The intra-op threads of a forward pass on a CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from omni_cli.cores import usable_cores


def default_threads(torch_threads: int, workers: int) -> int:
    """Return the intra-op threads of each of `workers` workers: an equal share of the usable cores.

    OMP_NUM_THREADS, which torch has taken over as its own number `torch_threads`, wins.
    """
    return torch_threads if "OMP_NUM_THREADS" in os.environ else max(1, usable_cores() // workers)


def threads_on(device: str) -> int | None:
    """Return the intra-op threads of this thread if `device`, torch's name of it, is a CPU; otherwise None."""
    return torch.get_num_threads() if device == "cpu" else None


@contextmanager
def intra_op_threads(threads: int | None) -> Iterator[None]:
    """Compute inside the `with` block with `threads`, or as many as a single worker has, and as before behind it."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or default_threads(before, 1))
    try:
        yield
    finally:
        torch.set_num_threads(before)
