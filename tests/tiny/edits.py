"""Tiny pipelines that start from a picture: the parts of their text-to-image siblings in another class."""

from typing import Any

import diffusers as d
from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker

from tests.tiny import images
from tests.tiny.parts import WIDTH, unet
from tests.tiny.texts import picture_processor


def stable_diffusion_img2img() -> d.StableDiffusionImg2ImgPipeline:
    """SD 1.5 from a picture."""
    return d.StableDiffusionImg2ImgPipeline(**images.stable_diffusion().components)


def stable_diffusion_inpaint() -> d.StableDiffusionInpaintPipeline:
    """SD 1.5 inpainting: the UNet sees the noise, the mask and the masked picture."""
    parts = images.stable_diffusion().components | {"unet": unet(cross_attention_dim=WIDTH, in_channels=9)}
    return d.StableDiffusionInpaintPipeline(**parts)


def stable_diffusion_controlnet() -> d.StableDiffusionControlNetPipeline:
    """SD 1.5 with a ControlNet."""
    controlnet = d.ControlNetModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        attention_head_dim=2,
        norm_num_groups=4,
        cross_attention_dim=WIDTH,
        conditioning_embedding_out_channels=(8, 8, 8, 8),
    )
    return d.StableDiffusionControlNetPipeline(**images.stable_diffusion().components, controlnet=controlnet.eval())


def blackening() -> d.StableDiffusionPipeline:
    """SD 1.5 whose safety checker finds every picture unsafe: any likeness is more than its threshold."""
    pipeline = images.stable_diffusion()
    checker: StableDiffusionSafetyChecker = pipeline.safety_checker
    checker.concept_embeds_weights.data.fill_(-2.0)
    return pipeline


def stable_diffusion_xl_img2img() -> d.StableDiffusionXLImg2ImgPipeline:
    """SDXL from a picture, as its refiner is used."""
    return d.StableDiffusionXLImg2ImgPipeline(**images.stable_diffusion_xl().components)


def stable_diffusion_3_img2img() -> d.StableDiffusion3Img2ImgPipeline:
    """SD 3 from a picture."""
    return d.StableDiffusion3Img2ImgPipeline(**images.stable_diffusion_3().components)


def flux_img2img() -> d.FluxImg2ImgPipeline:
    """Flux from a picture."""
    return d.FluxImg2ImgPipeline(**_without_ip(images.flux()))


def flux_kontext() -> d.FluxKontextPipeline:
    """Flux Kontext: the picture's tokens beside the noise."""
    return d.FluxKontextPipeline(**_without_ip(images.flux()))


def qwen_image_edit() -> d.QwenImageEditPipeline:
    """Qwen-Image-Edit: the language model sees the picture too. The pipeline blows it up to a megapixel for the VAE."""
    processor = picture_processor()
    parts = images.qwen_image(vae_width=2).components | {"processor": processor, "tokenizer": processor.tokenizer}
    return d.QwenImageEditPipeline(**parts)


def _without_ip(pipeline: Any) -> dict[str, Any]:
    """The parts of a Flux without the image encoder that IP adapters bring."""
    return {name: part for name, part in pipeline.components.items() if part is not None}
