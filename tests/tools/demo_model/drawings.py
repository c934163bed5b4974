"""Drawn clips as a file would hold them."""

import numpy as np
from numpy.typing import NDArray

from omni_cli.models.demo.scenes import Scene
from tools.demo_model.draw import Placement, draw


def draw_levels(scene: Scene, placement: Placement, frames: int, height: int, width: int) -> NDArray[np.uint8]:
    """Draw a clip, uint8 [frames, height, width, 3]."""
    clip = draw([scene], [placement], frames, height, width)[0]
    levels: NDArray[np.uint8] = (clip * 255).round().numpy().astype(np.uint8).transpose(1, 2, 3, 0)
    return np.ascontiguousarray(levels)
