"""The list that ships with the repository."""

from pathlib import Path

from omni_cli.prompts import LocatedRequest, read
from tools.demo_model.scene_data import parse

DEMO = Path(__file__).parents[2] / "prompts" / "demo.jsonl"


def test_every_demo_prompt_is_a_scene_with_its_own_id_and_a_seed():
    rows = list(read(DEMO))
    assert all(isinstance(row, LocatedRequest) for row in rows)
    requests = [row.request for row in rows]
    assert len({request.id for request in requests}) == len(requests) == 14
    assert all(parse(request.prompt) is not None and request.seed is not None for request in requests)
    assert all(request.height % 16 == request.width % 16 == 0 for request in requests)
