"""Check the weights in prompts, before anything is loaded: how they are written, and who can apply them."""

import re
from collections.abc import Iterator

from omni_cli.errors import Diagnostic, DiagnosticError
from omni_cli.models.cards import Card
from omni_cli.planner.fingerprint import compel_version
from omni_cli.planner.resolve import Resolved, SourcedRequest
from omni_cli.prompts.attention import first_weight, parse_weights
from omni_cli.text import quote

_PIPELINES = re.compile(
    r"(?:StableDiffusion(?:XL)?(?:ControlNet)?(?:PAG)?(?:Img2Img|Inpaint)?|AnimateDiff(?:VideoToVideo)?)Pipeline"
)
"""Classes of diffusers whose texts go through CLIP encoders alone, and that take embeddings in their place."""

_OTHER_TEXTS = ("clip_skip", "prompt_2", "negative_prompt_2")
"""Keywords that have no effect beside embeddings."""


def weight_problems(row: SourcedRequest, resolved: Resolved, card: Card) -> Iterator[Diagnostic]:
    """Yield what keeps the weights in the texts of a request with `prompt_weighting` from being applied."""
    request = resolved.request
    if request.prompt_weighting is None:
        return
    shown = "(...)"
    for field, text in (("prompt", request.prompt), ("negative_prompt", request.negative_prompt)):
        try:
            parts = parse_weights(text or "")
        except DiagnosticError as error:
            fault = error.diagnostic
            yield row.problem(field, f"{fault.cause} (character {fault.offset + 1})", fault.remedy)
            return
        if (weighted := first_weight(parts)) is not None:
            shown = weighted.shown if shown == "(...)" else shown
        if any(part.weight < 0 for part in parts):
            yield row.problem(
                field, "holds a weight below 0", "give weights from 0; what is unwanted is negative_prompt"
            )
    if _PIPELINES.fullmatch(card.pipeline) is None:
        cause = f"{card.pipeline} cannot apply the weight in {quote(shown)}"
        remedy = "remove it; pipelines of Stable Diffusion 1, 2 and XL and of AnimateDiff can"
        yield row.problem("prompt_weighting", cause, remedy)
    elif compel_version() is None:
        cause = f"the weight in {quote(shown)} needs the compel package"
        yield row.problem("prompt_weighting", cause, "pip install compel")
    for name in _OTHER_TEXTS:
        if name in (request.extra or {}):
            yield row.problem("extra", f"{name} has no effect beside weights in prompts", "leave one of them out")
