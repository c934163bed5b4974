"""The pipelines that are proved, and how each is asked: one row of a prompt file per tiny model."""

from dataclasses import dataclass, field
from typing import Any

PROMPT = "a red circle, grüße 猫"

SMALL = {"height": 32, "width": 64, "num_inference_steps": 2}
WIDE = SMALL | {"height": 64, "width": 128}
CLIP = SMALL | {"num_frames": 5}
FROM_PICTURE = {"image": "picture.png", "num_inference_steps": 4, "strength": 0.5}


@dataclass(frozen=True, slots=True)
class Case:
    """A tiny model and the fields of a request for it; `image` and the like name files of the inputs folder.

    `file` is the suffix of the file that the plan names. `fps` is what the class's own example writes its clips with, the rate of
    the input clip where there is one, None for what has no rate. `black`: the safety checker is made to fire. `track`: a clip has
    sound. `of` says in a word or two which model of the class it is. `plain` are keywords that diffusers is given beside the
    fields because it would change the size otherwise, `names` its own names for fields where they differ.
    """

    model: str
    fields: dict[str, Any]
    file: str = ".png"
    fps: float | None = None
    of: str = ""
    prompt: bool = True
    black: bool = False
    track: bool = False
    plain: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


def _clip(model: str, fps: float, fields: dict[str, Any], **more: Any) -> Case:
    return Case(model, fields, ".mp4", fps, **more)


UNBINNED = {"use_resolution_binning": False}

CASES = (
    Case("stable_diffusion", SMALL, of="1.5"),
    Case("blackening", SMALL, of="1.5, safety checker fires", black=True),
    Case("stable_diffusion_img2img", FROM_PICTURE),
    Case(
        "stable_diffusion_inpaint", SMALL | {"image": "picture.png", "mask": "mask.png"}, names={"mask": "mask_image"}
    ),
    Case("stable_diffusion_controlnet", SMALL | {"image": "picture.png"}),
    Case("stable_diffusion_xl", SMALL),
    Case("stable_diffusion_xl_img2img", FROM_PICTURE),
    Case("stable_diffusion_3", SMALL),
    Case("stable_diffusion_3_img2img", SMALL | FROM_PICTURE),
    Case("latent_consistency", SMALL),
    Case("flux", SMALL),
    Case("flux_img2img", SMALL | FROM_PICTURE),
    Case(
        "flux_kontext", SMALL | {"image": "picture.png", "extra": {"_auto_resize": False}}, plain={"max_area": 32 * 64}
    ),
    Case("flux_2", SMALL),
    Case("flux_2_klein", SMALL),
    Case("chroma", SMALL),
    Case("qwen_image", SMALL | {"negative_prompt": "blurred"}),
    Case("qwen_image_edit", SMALL | {"image": "picture.png"}),
    Case("hunyuan_image", WIDE, of="2.1"),
    Case("z_image", SMALL),
    Case("lumina_2", SMALL),
    Case("sana", WIDE, plain=UNBINNED),
    Case("pixart_sigma", SMALL, plain=UNBINNED),
    Case("kandinsky_22", WIDE | {"extra": {"prior_num_inference_steps": 2}}),
    Case("kandinsky_3", WIDE),
    Case("ddpm", {"num_inference_steps": 3, "extra": {"batch_size": 1}}, prompt=False),
    Case("ddim", {"num_inference_steps": 3, "extra": {"eta": 0.0}}, prompt=False),
    _clip("wan", 16, CLIP, of="2.1 T2V"),
    _clip("wan_ti2v", 24, WIDE | {"num_frames": 5}, of="2.2 TI2V 5B"),
    _clip("wan_a14b", 16, CLIP | {"guidance_scale_2": 3.0, "num_inference_steps": 3}, of="2.2 T2V A14B"),
    _clip("wan_i2v", 16, CLIP | {"image": "picture.png"}, of="2.1 I2V"),
    _clip("wan_flf2v", 16, CLIP | {"image": "picture.png", "last_image": "last.png"}, of="2.1, first and last frame"),
    _clip("wan_i2v_a14b", 16, CLIP | {"image": "picture.png"}, of="2.2 I2V A14B"),
    _clip(
        "wan_v2v",
        8,
        {"video": "clip.mp4", "num_inference_steps": 4, "strength": 0.5, "height": 32, "width": 64},
        of="rate of its clip",
    ),
    _clip("wan_vace", 8, CLIP | {"video": "clip.mp4"}, of="rate of its clip"),
    _clip("helios", 24, SMALL | {"num_frames": 65}),
    _clip("hunyuan_video", 15, CLIP),
    _clip("hunyuan_video_15", 24, CLIP),
    _clip("ltx", 25, WIDE | {"num_frames": 9}),
    _clip("ltx_i2v", 25, WIDE | {"num_frames": 9, "image": "picture.png"}),
    _clip("ltx_2", 24, WIDE | {"num_frames": 9}, track=True),
    _clip("cogvideox", 8, SMALL | {"num_frames": 9}),
    _clip("mochi", 30, SMALL | {"num_frames": 7}),
    _clip("sana_video", 16, WIDE | {"num_frames": 5}, plain=UNBINNED, names={"num_frames": "frames"}),
    _clip("animatediff", 8, SMALL | {"num_frames": 4}),
    _clip("stable_video_diffusion", 7, WIDE | {"num_frames": 3, "image": "picture.png"}, prompt=False),
    Case("stable_audio", {"num_inference_steps": 2, "extra": {"audio_end_in_s": 0.25}}, ".wav"),
)
