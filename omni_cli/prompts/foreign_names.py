"""What the names that other tools give to fields mean here.

Names are compared in lower case with underscores: `negativePrompt` and `Negative Prompt` are `negative_prompt`.
"""

import re
from collections.abc import Mapping

from omni_cli.prompts.fields import NAMES, field_of
from omni_cli.text import did_you_mean, quote

_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("text", "caption", "prompts", "prompt_text", "prompt_en", "description"), "prompt"),
    **dict.fromkeys(("negative", "neg_prompt", "negative_text", "uc"), "negative_prompt"),
    **dict.fromkeys(("cfg", "guidance", "cfg_guidance_scale"), "guidance_scale"),
    **dict.fromkeys(("num_steps", "sampling_steps", "inference_steps", "infer_steps", "sample_steps"), "steps"),
    **dict.fromkeys(("frames", "length", "video_length", "n_frames", "frame_count"), "num_frames"),
    **dict.fromkeys(("frame_rate", "framerate"), "fps"),
    **dict.fromkeys(("duration", "video_seconds", "length_seconds"), "seconds"),
    **dict.fromkeys(("output_compression", "jpeg_quality", "output_quality"), "quality"),
    **dict.fromkeys(("filename", "file_name", "output_path", "output_file", "save_path", "out_path"), "output"),
    **dict.fromkeys(("name", "key", "uid"), "id"),
    **dict.fromkeys(("init_image", "input_image", "image_url", "image_name", "first_frame", "start_image"), "image"),
    **dict.fromkeys(("last_frame", "end_image", "end_frame"), "last_image"),
    **dict.fromkeys(("mask_image", "mask_path"), "mask"),
    **dict.fromkeys(("input_video", "video_path", "init_video"), "video"),
    **dict.fromkeys(("batch_size", "num_images", "num_videos", "samples", "num_samples", "n_iter"), "num_outputs"),
    **dict.fromkeys(("w",), "width"),
    **dict.fromkeys(("h",), "height"),
    **dict.fromkeys(("loras", "lora_path", "lora_name", "lora_model"), "lora"),
    **dict.fromkeys(("denoising_strength", "image_strength", "denoise"), "strength"),
}

_FLAGS: Mapping[str, str] = {
    **dict.fromkeys(("sampler", "sampler_name", "scheduler"), "--scheduler"),
    **dict.fromkeys(("shift", "flow_shift"), "--flow-shift"),
    **dict.fromkeys(("dtype", "torch_dtype", "precision"), "--dtype"),
}
"""Settings of a run, not of a request."""

_KEYWORDS = frozenset(
    {
        *("attention_kwargs", "class_labels", "clip_skip", "control_guidance_end", "control_guidance_start"),
        *("control_image", "controlnet_conditioning_scale", "cross_attention_kwargs", "crops_coords_top_left"),
        *("decode_chunk_size", "denoising_end", "denoising_start", "eta", "guidance_rescale", "ip_adapter_image"),
        *("joint_attention_kwargs", "max_sequence_length", "motion_bucket_id", "negative_prompt_2"),
        *("negative_prompt_3", "noise_aug_strength", "original_size", "padding_mask_crop", "pag_adaptive_scale"),
        *("pag_scale", "prompt_2", "prompt_3", "sigmas", "target_size", "timesteps"),
    }
)
"""Keywords of many diffusers pipelines that are no fields."""

_ADVICE: Mapping[str, str] = {
    "background": "a background is a matter of the prompt: pictures here have no alpha",
    "output_format": 'it is called "format" here',
    **dict.fromkeys(("aspect_ratio", "resolution", "image_size"), 'give width and height, or size as in "832x480"'),
    **dict.fromkeys(
        ("lora_scale", "lora_weight", "lora_strength"), 'give it with the adapter: {"path": "...", "weight": 0.8}'
    ),
}

OTHERWISE = "--extra-columns keep puts what is no field into the row's meta, ignore leaves it out"


def plain_name(written: str) -> str:
    """Return a name as people write it in the spelling of fields: "CFG Scale" and "cfgScale" are "cfg_scale"."""
    return re.sub(r"[\s\-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", written.strip())).lower()


def foreign_advice(written: str) -> str:
    """Return what the name `written` of another tool means here, "" if that is not known."""
    name = plain_name(written)
    if name in _FIELDS:
        field = _FIELDS[name]
        return f"here it is {quote(field)}: rename it, or pass --field {field}={_shell_word(written)}"
    if name in _FLAGS:
        return f"it is a setting of the run: {_FLAGS[name]}"
    if name in _KEYWORDS:
        return f'pass it on to the pipeline: {{"extra": {{"{name}": ...}}}}'
    return _ADVICE.get(name, "")


def unknown_field_advice(written: str) -> str:
    """Return what to do about a name that means no field."""
    plain = plain_name(written)
    if field_of(plain) is not None:
        return f"did you mean {quote(plain)}?"
    return foreign_advice(written) or did_you_mean(written, NAMES, OTHERWISE)


def meant_field(written: str) -> str | None:
    """Return the field that a name which means none was probably meant to be, None if there is no telling."""
    plain = plain_name(written)
    return field_of(plain) or field_of(_FIELDS.get(plain, "")) or None


def _shell_word(written: str) -> str:
    return written if re.fullmatch(r"[\w.]+", written) else quote(written)
