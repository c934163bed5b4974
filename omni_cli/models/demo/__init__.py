"""The embedded demo model: a Wan pipeline that draws "a red circle moving right on a blue background".

Importing this package imports nothing heavy; the program that trained the weights is the subpackage
`train`, the only one here that needs torch, together with `draw`.
"""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
"""Folder in the diffusers layout: `WanPipeline.from_pretrained(WEIGHTS)` loads it, offline."""
