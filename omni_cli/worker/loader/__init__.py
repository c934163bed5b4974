"""From a name to a pipeline in memory. The only room that imports diffusers.

locate ──> check (no pickles, no foreign code) ──> from_pretrained / from_single_file ──> device ──> seam ──> card
"""

from omni_cli.worker.loader.pipeline import LoadedPipeline, identify, load

__all__ = ["LoadedPipeline", "identify", "load"]
