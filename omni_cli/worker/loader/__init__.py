"""Load a pipeline by name. The only package that imports diffusers' loaders.

locate ──> check (no pickles, no untrusted code) ──> from_pretrained / from_single_file ──> tune, move to the device
       ──> wrap the output processors ──> card
"""

from omni_cli.worker.loader.loaded_pipeline import LoadedPipeline, identify, load, weights_of

__all__ = ["LoadedPipeline", "identify", "load", "weights_of"]
