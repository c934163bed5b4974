"""A tiny repository with code of its own, like HunyuanImage 3.0: a language model with `generate_image`."""

from pathlib import Path

import torch
from safetensors.torch import save_file

CONFIGURATION = """
from transformers import PretrainedConfig


class TinyImageConfig(PretrainedConfig):
    model_type = "tiny_image"
"""

MODELING = '''
import zlib

import numpy as np
import torch
from diffusers import DiffusionPipeline
from PIL import Image
from transformers import PreTrainedModel

from .configuration_tiny import TinyImageConfig


class TinyPipeline(DiffusionPipeline):
    """Has the bar of the denoising loop."""


class HunyuanImage3ForCausalMM(PreTrainedModel):
    config_class = TinyImageConfig

    def __init__(self, config):
        super().__init__(config)
        self.mix = torch.nn.Linear(3, 3)
        self.tokenizer = None
        self.pipeline = TinyPipeline()
        self.post_init()

    def load_tokenizer(self, path):
        self.tokenizer = path

    def generate_image(self, prompt, seed=None, image_size="auto", bot_task=None, stream=False, **kwargs):
        assert self.tokenizer is not None
        steps = kwargs.pop("diff_infer_steps", 50)
        scale = kwargs.pop("diff_guidance_scale", 7.5)
        assert not kwargs, kwargs
        height, width = (32, 48) if image_size == "auto" else map(int, image_size.split("x"))
        noise = torch.rand(height, width, 3, generator=torch.Generator().manual_seed(seed)) + 0.1 * torch.rand(1)
        for _ in self.pipeline.progress_bar(range(steps)):
            noise = torch.sigmoid(scale * self.mix(noise))
        noise = (noise + zlib.crc32(prompt.encode()) % 100 / 400).clamp(0, 1)
        picture = Image.fromarray((noise * 255).round().byte().numpy())
        return (f"thought about {prompt}", [picture]) if bot_task == "think" else picture
'''

CONFIG = """{
  "model_type": "tiny_image",
  "architectures": ["HunyuanImage3ForCausalMM"],
  "auto_map": {
    "AutoConfig": "configuration_tiny.TinyImageConfig",
    "AutoModelForCausalLM": "modeling_tiny.HunyuanImage3ForCausalMM"
  }
}"""


def save(folder: Path) -> Path:
    """Write the repository into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(CONFIG)
    (folder / "configuration_tiny.py").write_text(CONFIGURATION)
    (folder / "modeling_tiny.py").write_text(MODELING)
    random = torch.Generator().manual_seed(0)
    weights = {"mix.weight": torch.randn(3, 3, generator=random), "mix.bias": torch.randn(3, generator=random)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
