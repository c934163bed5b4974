"""The built-in demo model: a Wan pipeline that draws "a red circle moving right on a blue background".

Importing this package imports nothing heavy. `tools/demo_model` in the repository trains and evaluates the weights.
"""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
"""Folder in the diffusers layout; `WanPipeline.from_pretrained(WEIGHTS)` loads it offline."""
