"""omni-gen: a file of prompts in, images and videos out, as fast as the device can go."""

__version__ = "0.1.0"
