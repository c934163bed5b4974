"""Layouts: the names of files, the columns of the list and the number of outputs that an evaluator expects.

vbench       videos/PROMPT-0.mp4 ... -4.mp4     `VBench.evaluate(videos_path="OUT/videos", ...)` looks up these names
geneval      00000/samples/0000.png ... 0003    `evaluate_images.py OUT` walks folders whose names are digits, and reads
             00000/metadata.jsonl               the row of the list from one JSON object beside `samples`
hf-dataset   train/ID.png, train/metadata.jsonl `load_dataset("imagefolder", data_dir="OUT/train")`, or "videofolder"

Sources: vbench/__init__.py and prompts/README.md of Vchitect/VBench, evaluation/evaluate_images.py of
djghosh13/geneval, folder_based_builder.py of huggingface/datasets.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from omni_cli.config import LayoutName, OutputConfig
from omni_cli.errors import UsageError
from omni_cli.request import GenerationRequest

ID_TEMPLATE = "{id}"


class EvaluatorLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator expects.

    `template` is a name template, `formats` are those that its reader opens. `defaults` are values of requests that
    neither a row nor a flag gives, `fields` are columns of its own lists and the fields that they mean, `meta` are
    names that every row must have in its `meta`.
    """

    template: str
    formats: tuple[str, ...]
    defaults: GenerationRequest = GenerationRequest()
    fields: Mapping[str, str] = {}
    meta: tuple[str, ...] = ()


LAYOUTS: Mapping[LayoutName, EvaluatorLayout] = {
    "vbench": EvaluatorLayout(
        template="videos/{whole_prompt}-{n}",
        formats=("mp4", "webm", "mov", "mkv", "gif"),
        defaults=GenerationRequest(num_outputs=5),
        fields={"prompt_en": "prompt"},
    ),
    "geneval": EvaluatorLayout(
        template="{index:05d}/samples/{n:04d}",
        formats=("png", "png16"),
        defaults=GenerationRequest(num_outputs=4, num_frames=1, format="png"),
        meta=("tag",),
    ),
    "hf-dataset": EvaluatorLayout(
        template="train/{id}", formats=("png", "png16", "jpeg", "webp", "gif", "mp4", "mov", "mkv")
    ),
}


def name_template(output: OutputConfig) -> str:
    """Return the template of file names. Raises UsageError for a layout with a template of the user."""
    if output.layout is None:
        return output.name_template
    if output.name_template != ID_TEMPLATE:
        raise UsageError(f"--layout {output.layout} names the files: leave --name-template out")
    return LAYOUTS[output.layout].template


def layout_defaults(layout: LayoutName | None, flags: GenerationRequest) -> GenerationRequest:
    """Return the values of `flags`, with those of the layout where there is none."""
    if layout is None:
        return flags
    defaults = LAYOUTS[layout].defaults
    missing = {
        name: value
        for name in GenerationRequest.__struct_fields__
        if getattr(flags, name) is None and (value := getattr(defaults, name)) is not None
    }
    return replace(flags, **missing)
