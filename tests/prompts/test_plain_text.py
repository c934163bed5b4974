"""Plain text: one prompt a line."""

from omni_cli.request import GenerationRequest


def test_a_line_is_a_prompt_and_comments_and_blanks_are_skipped(rows):
    first, second = rows("# list\r\n\r\n  a cat, sitting \r\n \u00a0\n\\#1 dog")
    assert (first.request, first.line, first.index) == (GenerationRequest(prompt="a cat, sitting"), 3, 0)
    assert first.at("prompt") == (3, 3)
    assert (second.request.prompt, second.line, second.index) == ("#1 dog", 5, 1)
    assert second.at("prompt") == (5, 2)


def test_prompts_of_any_script_are_kept(requests):
    assert [one.prompt for one in requests("红色的圆\nقطة\n[b]not markup[/b]", "txt")] == [
        "红色的圆",
        "قطة",
        "[b]not markup[/b]",
    ]


def test_text_that_cannot_be_encoded_is_a_problem(problems):
    assert problems(b"a\0b\nc\xffd", "txt") == [
        "1:1: prompt: holds a NUL character; remove it: such text cannot be written as UTF-8 or passed on",
        "2:2: byte 0xff at byte 2 of the row is not UTF-8; "
        "save the file as UTF-8, or name its encoding with --input-encoding",
    ]


def test_comments_alone_are_no_requests(problems):
    assert problems("# a\n\n# b", "txt") == ["1:1: no requests; give at least one"]
