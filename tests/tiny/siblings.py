"""Tiny pipelines that have the parts of another one: classes of the same models for other tasks."""

import inspect
from collections.abc import Callable
from typing import Any

import diffusers as d

from tests.tiny import edits, images, newer, videos
from tests.tiny.parts import WIDTH, unet

SIBLINGS: dict[str, tuple[str, Callable[[], Any]]] = {
    "stable_diffusion_pag": ("StableDiffusionPAGPipeline", images.stable_diffusion),
    "stable_diffusion_pag_img2img": ("StableDiffusionPAGImg2ImgPipeline", images.stable_diffusion),
    "stable_diffusion_pag_inpaint": ("StableDiffusionPAGInpaintPipeline", edits.stable_diffusion_inpaint),
    "stable_diffusion_controlnet_img2img": (
        "StableDiffusionControlNetImg2ImgPipeline",
        edits.stable_diffusion_controlnet,
    ),
    "stable_diffusion_controlnet_inpaint": (
        "StableDiffusionControlNetInpaintPipeline",
        edits.stable_diffusion_controlnet,
    ),
    "stable_diffusion_controlnet_pag": ("StableDiffusionControlNetPAGPipeline", edits.stable_diffusion_controlnet),
    "latent_consistency_img2img": ("LatentConsistencyModelImg2ImgPipeline", newer.latent_consistency),
    "stable_diffusion_xl_inpaint": ("StableDiffusionXLInpaintPipeline", images.stable_diffusion_xl),
    "stable_diffusion_xl_pag": ("StableDiffusionXLPAGPipeline", images.stable_diffusion_xl),
    "stable_diffusion_xl_pag_img2img": ("StableDiffusionXLPAGImg2ImgPipeline", images.stable_diffusion_xl),
    "stable_diffusion_xl_pag_inpaint": ("StableDiffusionXLPAGInpaintPipeline", images.stable_diffusion_xl),
    "flux_inpaint": ("FluxInpaintPipeline", edits.flux_img2img),
    "flux_2_klein_inpaint": ("Flux2KleinInpaintPipeline", newer.flux_2_klein),
    "chroma_img2img": ("ChromaImg2ImgPipeline", newer.chroma),
    "qwen_image_img2img": ("QwenImageImg2ImgPipeline", images.qwen_image),
    "qwen_image_inpaint": ("QwenImageInpaintPipeline", images.qwen_image),
    "qwen_image_edit_plus": ("QwenImageEditPlusPipeline", edits.qwen_image_edit),
    "z_image_img2img": ("ZImageImg2ImgPipeline", newer.z_image),
    "z_image_inpaint": ("ZImageInpaintPipeline", newer.z_image),
    "sana_pag": ("SanaPAGPipeline", newer.sana),
    "pixart_alpha": ("PixArtAlphaPipeline", newer.pixart_sigma),
    "kandinsky_3_img2img": ("Kandinsky3Img2ImgPipeline", images.kandinsky_3),
    "ltx_2_i2v": ("LTX2ImageToVideoPipeline", videos.ltx_2),
    "cogvideox_v2v": ("CogVideoXVideoToVideoPipeline", videos.cogvideox),
    "animatediff_v2v": ("AnimateDiffVideoToVideoPipeline", videos.animatediff),
    "sana_image_to_video": ("SanaImageToVideoPipeline", videos.sana_video),
}
"""Name -> the class, and the pipeline whose parts it takes."""


def sibling(name: str) -> Any:
    """Build the pipeline `name` of SIBLINGS."""
    class_name, build = SIBLINGS[name]
    return _with_parts_of(class_name, build().components)


def stable_diffusion_pix2pix() -> Any:
    """InstructPix2Pix: the UNet sees the picture's latents beside the noise."""
    parts = images.stable_diffusion().components | {"unet": unet(cross_attention_dim=WIDTH, in_channels=8)}
    return _with_parts_of("StableDiffusionInstructPix2PixPipeline", parts)


def stable_diffusion_xl_controlnet() -> Any:
    """SDXL with a ControlNet of its conditions."""
    controlnet = d.ControlNetModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        attention_head_dim=2,
        norm_num_groups=4,
        cross_attention_dim=2 * WIDTH,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + WIDTH,
        use_linear_projection=True,
        conditioning_embedding_out_channels=(8, 8, 8, 8),
    )
    parts = images.stable_diffusion_xl().components | {"controlnet": controlnet.eval()}
    return _with_parts_of("StableDiffusionXLControlNetPipeline", parts)


def ltx_condition() -> Any:
    """LTX Video from conditions; it knows no shift of its steps by size."""
    parts = videos.ltx().components | {"scheduler": d.FlowMatchEulerDiscreteScheduler()}
    return _with_parts_of("LTXConditionPipeline", parts)


def _with_parts_of(class_name: str, parts: dict[str, Any]) -> Any:
    """Return a pipeline of the class with those `parts` that it takes."""
    kind = getattr(d, class_name)
    taken = inspect.signature(kind.__init__).parameters
    return kind(**{name: part for name, part in parts.items() if name in taken})
