"""Sleeping models give their memory back, the longest asleep first."""

import pytest

from omni_cli.config import ModelConfig
from omni_cli.worker.sleeping_models import RESERVE_BYTES, SleepingModels

A, B = ModelConfig(model="a"), ModelConfig(model="b")


@pytest.mark.parametrize(
    ("needed", "workers", "has_room", "left"),
    [(10, 1, True, "ab"), (15, 1, True, "b"), (25, 1, True, ""), (40, 1, False, ""), (10, 2, False, "")],
)
def test_room_is_made_by_dropping_the_longest_asleep(needed: int, workers: int, has_room: bool, left: str) -> None:
    models: SleepingModels[str] = SleepingModels(lambda: RESERVE_BYTES + 30 - 10 * sum(m in models for m in (A, B)))
    models.add(A, "a")
    models.add(B, "b")
    assert models.has_room(needed, workers) is has_room
    assert "".join(model.model for model in (A, B) if model in models) == left


def test_without_known_memory_none_is_kept() -> None:
    assert not SleepingModels[str](lambda: None).has_room(1)
