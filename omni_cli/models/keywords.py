"""Keywords of a pipeline's call: those that fields of a request become, and those that the engine sets itself."""

NAMES: dict[str, tuple[str, ...]] = {
    "height": ("height",),
    "width": ("width",),
    "num_frames": ("num_frames", "video_length", "frames"),
    "num_inference_steps": ("num_inference_steps",),
    "guidance_scale": ("guidance_scale",),
    "guidance_scale_2": ("guidance_scale_2",),
    "true_cfg_scale": ("true_cfg_scale",),
    "strength": ("strength",),
    "fps": ("fps", "frame_rate"),
    "image": ("image",),
    "last_image": ("last_image",),
    "mask": ("mask_image", "mask"),
    "video": ("video",),
    "latents": ("latents",),
}
"""Field of a request -> the names that pipelines have for it, the most common first."""

TEXTS = ("prompt", "negative_prompt")
"""Fields that each sample of a call has its own value of."""

OUTPUT_ONLY = frozenset({"fps"})
"""Fields that a pipeline need not take: they say how the file is written."""

COUNTS = frozenset({"num_images_per_prompt", "num_videos_per_prompt", "num_waveforms_per_prompt"})
"""Keywords that `num_outputs` replaces."""

OWNED = frozenset(
    {"generator", "output_type", "return_dict", "callback", "callback_steps"}
    | {"callback_on_step_end", "callback_on_step_end_tensor_inputs"}
)
"""Keywords that the engine sets itself."""

RESERVED = OWNED | COUNTS | frozenset(TEXTS)
"""Keywords that neither `extra` nor a file of embeddings may give."""
