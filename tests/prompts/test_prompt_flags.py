"""Flags behind prompts, as kohya's scripts, A1111's script and InvokeAI read them, become fields."""

from typing import Any

import pytest

from omni_cli.errors import DiagnosticError
from omni_cli.prompts.prompt_flags import read_flags


@pytest.mark.parametrize(
    ("text", "prompt", "fields"),
    [
        ("a -- b, c--d -x", "a -- b, c--d -x", {}),
        (
            "a red circle --n blur, dark --w 64 --h 80 --f 9 --d 42 --s 4 --g 3.0",
            "a red circle",
            {"negative_prompt": "blur, dark", "width": 64, "height": 80, "num_frames": 9, "seed": 42}
            | {"num_inference_steps": 4, "guidance_scale": 3.0},
        ),
        ("a --l 7", "a", {"guidance_scale": 7.0}),
        ("a --L 7 --g 3.5", "a", {"guidance_scale": 3.5, "true_cfg_scale": 7.0}),
        ("a --i start.png --ei end.png --t 0.5", "a", {"image": "start.png", "last_image": "end.png", "strength": 0.5}),
        (
            '--prompt "a \\"red\\" circle" --negative_prompt "b --w 9" --steps 4 --cfg_scale 7 --n_iter 2 --seed -1',
            'a "red" circle',
            {"negative_prompt": "b --w 9", "num_inference_steps": 4, "guidance_scale": 7.0, "num_outputs": 2},
        ),
        ("--prompt a red circle --width=64 --do_not_save_grid true", "a red circle", {"width": 64}),
        ("a --size 64x80", "a", {"width": 64, "height": 80}),
        ("a --n --w 64", "a", {"negative_prompt": "", "width": 64}),
        (
            '"a red circle" -n2 -H64 -W80 -S1234 -s 4 -C 7.5',
            "a red circle",
            {
                "num_outputs": 2,
                "height": 64,
                "width": 80,
                "seed": 1234,
                "num_inference_steps": 4,
                "guidance_scale": 7.5,
            },
        ),
        ("a blue square -s 4", "a blue square", {"num_inference_steps": 4}),
        ("a cat -s style", "a cat -s style", {}),
    ],
)
def test_flags_of_each_tool_become_fields(text: str, prompt: str, fields: dict[str, Any]) -> None:
    words, values, places = read_flags(text)
    assert (words, values) == (prompt, fields)
    for field in values.keys() - {"negative_prompt"}:
        assert text[places[field]] not in " -"


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("a --ss euler", 7, "unknown flag .*--scheduler"),
        ("a --fs 3", 7, "--flow-shift"),
        ("a --widht 64", 10, 'did you mean "width"'),
        ("a --ar 16:9", 7, "give --width and --height"),
        ("a --foo 1", 8, "--prompt-syntax plain renders it as words"),
        ("a --w wide", 6, "--w: expected a whole number"),
        ("a --w 64 --width 80", 17, "--width: width is given twice"),
        ("a --prompt b", 11, "--prompt: prompt is given twice"),
        ("a --lora x", 9, "unknown flag"),
        ("a -s 0", 5, "-s: expected a whole number"),
        ("a -A k_euler -s 4", 5, "--scheduler"),
    ],
)
def test_what_cannot_be_used_is_told_at_its_value(text: str, offset: int, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        read_flags(text)
    assert caught.value.diagnostic.offset == offset
