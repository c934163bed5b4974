"""What each field of a request may hold: one rule per field, whatever format the row was written in."""

import difflib
from collections.abc import Mapping
from functools import lru_cache

from omni_cli.prompts import rules
from omni_cli.prompts.shown import quoted
from omni_cli.request import MAX_SEED, GenerationRequest

FIELDS: tuple[str, ...] = GenerationRequest.__struct_fields__

ALIASES: Mapping[str, str] = {
    "steps": "num_inference_steps",
    "cfg_scale": "guidance_scale",
    "n": "num_outputs",
    "num_images_per_prompt": "num_outputs",
    "num_videos_per_prompt": "num_outputs",
    "custom_id": "id",
    "request_id": "id",
    "image_path": "image",
}
"""Names that people bring from elsewhere, and ours for them. `size` ("WxH") stands for two fields and is not here."""

SIZE = "size"


def known(key: str) -> str | None:
    """The field that `key` names (`size` stands for itself), or None."""
    return key if key in RULES or key in _BY_ITEM or key == SIZE else ALIASES.get(key)


def targets(name: str | None) -> tuple[str, ...]:
    """The fields of a request that the known name `name` fills; none for None."""
    if name is None:
        return ()
    return ("width", "height") if name == SIZE else (name,)


def nearest(key: str) -> str:
    """The known name that is most like the unknown `key`; empty if none is."""
    return _nearest(key[:40].lower())


@lru_cache(maxsize=256)
def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key, (*FIELDS, *ALIASES, SIZE), n=1)
    return near[0] if near else ""


def suggestion(key: str) -> str:
    """Advice about the unknown field `key`: the nearest known name, or all names."""
    near = nearest(key)
    return f"did you mean {quoted(near)}?" if near else f"known: {', '.join((*FIELDS, SIZE))}"


RULES: Mapping[str, rules.Rule] = {
    "id": rules.request_id,
    "model": rules.model_name,
    "prompt": rules.text,
    "negative_prompt": rules.text,
    "seed": rules.whole(0, MAX_SEED),
    "height": rules.whole(1, rules.MAX_SIDE),
    "width": rules.whole(1, rules.MAX_SIDE),
    "num_frames": rules.whole(1, rules.MAX_FRAMES),
    "fps": rules.real(0, rules.MAX_FPS, above=True),
    "num_inference_steps": rules.whole(1, rules.MAX_STEPS),
    "guidance_scale": rules.real(),
    "guidance_scale_2": rules.real(),
    "true_cfg_scale": rules.real(),
    "strength": rules.real(0, 1),
    "last_image": rules.path,
    "mask": rules.path,
    "video": rules.path,
    "prompt_embeds": rules.path,
    "latents": rules.path,
    "num_outputs": rules.whole(1, rules.MAX_OUTPUTS),
    "interpolate": rules.whole(1, rules.MAX_INTERPOLATE),
    "output": rules.output_name,
    "format": rules.format_name,
}
"""The rule of every field that holds one plain value."""

_BY_ITEM = ("image", "lora", "extra")
"""Fields that may hold a list or an object; `nested` judges them item by item."""
