"""The pipelines that are proved, and how each is asked: one row of a prompt file per tiny model."""

from dataclasses import dataclass, field
from typing import Any

PROMPT = "a red circle, grüße 猫"

SMALL = {"height": 32, "width": 64, "num_inference_steps": 2}
WIDE = SMALL | {"height": 64, "width": 128}
CLIP = SMALL | {"num_frames": 5}
FROM_CLIP = {"video": "clip.mp4", "num_inference_steps": 4, "strength": 0.5, "height": 32, "width": 64}
FROM_PICTURE = {"image": "picture.png", "num_inference_steps": 4, "strength": 0.5}


@dataclass(frozen=True, slots=True)
class Case:
    """A tiny model and the fields of a request for it; `image` and the like name files of the inputs folder.

    `file` is the suffix of the file that the plan names. `fps` is what the class's own example writes its clips with,
    the rate of the input clip where there is one, None for what has no rate. `black`: the safety checker is made to
    fire. `track`: a clip has sound. `of` says in a word or two which model of the class it is. `plain` are keywords
    that diffusers is given beside the fields because it would change the size otherwise, `names` its own names for
    fields where they differ. `black_level` is the number that means black in diffusers' own output. `least` are fields
    that a row cannot do without beside its prompt and its files. `advice` is what the card has on purpose where the
    class's signature has something else: what the model's makers recommend, or the length that a rounded one comes to.
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
    advice: dict[str, Any] = field(default_factory=dict)
    black_level: float = 0.0
    least: dict[str, Any] = field(default_factory=dict)


def _clip(model: str, fps: float, fields: dict[str, Any], **more: Any) -> Case:
    return Case(model, fields, ".mp4", fps, **more)


LONGER = {"extra": {"overlap_history": 5, "base_num_frames": 9}}
ONE = {"extra": {"batch_size": 1}}
VIEW = {"image": "picture.png", "num_inference_steps": 2}
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
    Case("ddpm", {"num_inference_steps": 3} | ONE, prompt=False, least=ONE),
    Case("ddim", {"num_inference_steps": 3} | ONE, prompt=False, least=ONE),
    _clip("wan", 16, CLIP, of="2.1 T2V"),
    _clip(
        "wan_ti2v",
        24,
        WIDE | {"num_frames": 5},
        of="2.2 TI2V 5B",
        advice={"height": 704, "width": 1280, "num_frames": 121},
    ),
    _clip("wan_a14b", 16, CLIP | {"guidance_scale_2": 3.0, "num_inference_steps": 3}, of="2.2 T2V A14B"),
    _clip("wan_i2v", 16, CLIP | {"image": "picture.png"}, of="2.1 I2V"),
    _clip("wan_flf2v", 16, CLIP | {"image": "picture.png", "last_image": "last.png"}, of="2.1, first and last frame"),
    _clip("wan_i2v_a14b", 16, CLIP | {"image": "picture.png"}, of="2.2 I2V A14B"),
    _clip(
        "wan_v2v",
        8,
        FROM_CLIP,
        of="rate of its clip",
    ),
    _clip("wan_vace", 8, CLIP | {"video": "clip.mp4"}, of="rate of its clip"),
    _clip(
        "skyreels_v2v",
        8,
        CLIP | {"video": "clip.mp4", "num_frames": 9} | LONGER,
        plain={"fps": 8},
        least=LONGER,
        of="longer than its clip",
    ),
    _clip("helios", 24, SMALL | {"num_frames": 65}, advice={"num_frames": 129}),
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
    Case("marigold_normals", VIEW, prompt=False, black_level=-1.0),
    Case("stable_audio", {"num_inference_steps": 2, "extra": {"audio_end_in_s": 0.25}}, ".wav"),
    Case("stable_audio_3", {"num_inference_steps": 2, "extra": {"duration": 0.25}}, ".wav"),
    Case("longcat_audio", {"num_inference_steps": 2, "extra": {"audio_duration_s": 0.25}}, ".wav"),
)

MASKED = SMALL | {"image": "picture.png", "mask": "mask.png"}
CONTROL = {"extra": {"control_image": {"image": "last.png"}}}
MASK: dict[str, Any] = {"names": {"mask": "mask_image"}}

MORE = (
    _clip("cosmos_3", 24, CLIP),
    Case("kandinsky_5", {"height": 640, "width": 1408, "num_inference_steps": 2}),
    Case("marigold_depth", VIEW, prompt=False),
    Case("marigold_intrinsics", VIEW, prompt=False, of="albedo and material side by side"),
    Case("ace_step", {"num_inference_steps": 2, "extra": {"audio_duration": 0.25}}, ".wav"),
    Case(
        "audioldm_2",
        {
            "num_inference_steps": 2,
            "extra": {"audio_length_in_s": 0.25, "transcription": "rain", "max_new_tokens": 4},
        },
        ".wav",
        least={"extra": {"transcription": "rain", "max_new_tokens": 4}},
    ),
    Case("stable_diffusion_pag", SMALL),
    Case("stable_diffusion_pag_img2img", FROM_PICTURE),
    Case("stable_diffusion_pag_inpaint", MASKED, **MASK),
    Case("stable_diffusion_controlnet_img2img", FROM_PICTURE | CONTROL, least=CONTROL),
    Case("stable_diffusion_controlnet_inpaint", MASKED | CONTROL, least=CONTROL, **MASK),
    Case("stable_diffusion_controlnet_pag", SMALL | {"image": "picture.png"}),
    Case("stable_diffusion_pix2pix", VIEW),
    Case("latent_consistency_img2img", FROM_PICTURE),
    Case("stable_diffusion_xl_inpaint", MASKED, **MASK),
    Case("stable_diffusion_xl_pag", SMALL),
    Case("stable_diffusion_xl_pag_img2img", FROM_PICTURE),
    Case("stable_diffusion_xl_pag_inpaint", MASKED, **MASK),
    Case("stable_diffusion_xl_controlnet", SMALL | {"image": "picture.png"}),
    Case("flux_inpaint", MASKED, **MASK),
    Case("flux_2_klein_inpaint", MASKED, **MASK),
    Case("chroma_img2img", SMALL | FROM_PICTURE),
    Case("qwen_image_img2img", SMALL | FROM_PICTURE),
    Case("qwen_image_inpaint", MASKED, **MASK),
    Case("qwen_image_edit_plus", SMALL | {"image": "picture.png"}),
    Case("z_image_img2img", SMALL | FROM_PICTURE),
    Case("z_image_inpaint", MASKED, **MASK),
    Case("sana_pag", WIDE, plain=UNBINNED),
    Case("pixart_alpha", SMALL, plain=UNBINNED),
    Case("kandinsky_3_img2img", {"image": "picture.png", "num_inference_steps": 4, "strength": 0.5}),
    _clip("ltx_condition", 25, WIDE | {"num_frames": 9}),
    _clip("ltx_2_i2v", 24, WIDE | {"num_frames": 9, "image": "picture.png"}, track=True),
    _clip(
        "cogvideox_v2v", 8, {"video": "clip.mp4", "height": 32, "width": 64, "num_inference_steps": 4, "strength": 0.5}
    ),
    _clip(
        "animatediff_v2v",
        8,
        {"video": "clip.mp4", "height": 32, "width": 64, "num_inference_steps": 4, "strength": 0.5},
    ),
    _clip(
        "sana_image_to_video",
        16,
        WIDE | {"num_frames": 5, "image": "picture.png"},
        plain=UNBINNED,
        names={"num_frames": "frames"},
    ),
)
"""Cases of a long run: `pytest tests/pipelines --all-pipelines`."""
