"""CSV and TSV: columns are fields, records are requests, mistakes are located at their cells."""

import pytest

from omni_cli.request import Adapter, GenerationRequest

SAVE = "save the file as UTF-8, or name its encoding with --input-encoding"


def test_cells_become_fields_and_empty_cells_leave_them_unset(requests):
    text = (
        "id,prompt,steps,guidance_scale,size,lora,image,extra\r\n"
        '7,"a ""red"" cat, sitting",30,2.5,64x48,l.safetensors,a.png,"{""eta"": 0.5}"\r\n'
        'b , plain ,,,,"[""p"", {""path"": ""q"", ""weight"": 2}]","[""a.png"", ""b.png""]",\r\n'
    )
    assert requests(text, "csv") == [
        GenerationRequest(
            id="7", prompt='a "red" cat, sitting', num_inference_steps=30, guidance_scale=2.5, width=64, height=48,
            lora=[Adapter(path="l.safetensors")], image="a.png", extra={"eta": 0.5},
        ),
        GenerationRequest(
            id="b", prompt="plain", lora=[Adapter(path="p"), Adapter(path="q", weight=2.0)], image=["a.png", "b.png"]
        ),
    ]  # fmt: skip


def test_tabs_separate_and_commas_do_not(requests):
    assert requests('prompt\tseed\na, b\t1\n"c\td"\t2', "tsv") == [
        GenerationRequest(prompt="a, b", seed=1),
        GenerationRequest(prompt="c\td", seed=2),
    ]


def test_every_mistake_of_a_record_is_located_at_its_cell(problems):
    text = 'prompt,seed,fps,extra,output\na,1.5,nan,"{""x"": 1,, ""y"": 2}",../x\n'
    assert problems(text, "csv") == [
        "2:3: seed: expected a whole number from 0 to 9223372036854775807, got 1.5",
        '2:7: fps: expected a number above 0 up to 1000, got "nan"',
        '2:11: extra: unexpected "," (character 9 of the cell); put the field\'s name here, in straight double quotes',
        '2:35: output: "../x" leaves the output folder; give a relative path without ..',
    ]


def test_all_mistakes_of_the_header_are_reported_and_the_rows_are_read(rows, problems):
    text = "prompt,,promt,steps,num_inference_steps\na,b,c,4,5\n"
    assert problems(text, "csv") == [
        '1:9: unknown field "promt"; did you mean "prompt"?',
        '1:21: num_inference_steps: is given as "steps" and as "num_inference_steps"; keep one',
        "2:3: a value in a column without a name; name the column in the first line, or pass --extra-columns ignore",
    ]
    assert rows("prompt,promt,steps,num_inference_steps\na,c,4,5\n", "csv")[-1].request == GenerationRequest(
        prompt="a", num_inference_steps=4
    )


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("a cat,1", "1:1: the first line names no field; begin with the names of the columns, such as prompt and seed"),
        (
            "seed,fps",
            "1:1: no column gives a prompt; name one prompt, or say which it is with --field prompt=COLUMN",
        ),
    ],
)
def test_a_header_without_what_is_needed_is_one_problem(problems, header, problem):
    assert problems(f"{header}\n1,2\n3,4", "csv") == [problem]


def test_too_many_and_too_few_cells_are_problems(problems):
    advice = "a cell that holds commas or line breaks needs double quotes around it"
    assert problems("prompt,seed\na\nb,1,\nc,1", "csv") == [
        f"2:2: cells in the row: 1, in the header: 2; {advice}",
        f"3:5: cells in the row: 3, in the header: 2; {advice}",
    ]


def test_a_header_alone_has_no_requests(problems):
    assert problems("prompt,seed\n", "csv") == ["1:1: no requests; give at least one"]


def test_invalid_utf8_is_a_problem_in_header_and_rows(problems):
    found = problems(b"prompt,x\xff\na\xff,\nb,", "csv")
    assert [one for one in found if "UTF-8" in one] == [
        f"1:9: byte 0xff at byte 9 of the row is not UTF-8; {SAVE}",
        f"2:2: byte 0xff at byte 2 of the row is not UTF-8; {SAVE}",
    ]


def test_semicolons_separate_and_commas_are_decimal(requests, problems):
    text = 'prompt;seed;guidance_scale\r\nein roter Kreis, groß;7;3,5\r\n"a;b";8;4\r\n'
    expected = [
        GenerationRequest(prompt="ein roter Kreis, groß", seed=7, guidance_scale=3.5),
        GenerationRequest(prompt="a;b", seed=8, guidance_scale=4.0),
    ]
    assert (
        requests(text, "csv") == requests(f"sep=;\r\n{text}", "csv") == requests(f'"sep=;"\n{text}', "tsv") == expected
    )
    assert problems("prompt;width\na;1,024", "csv") == [
        '2:3: width: expected a whole number from 1 to 16384, got "1,024"'
    ]
    assert problems("sep=,\nprompt\n", "csv") == ["1:1: no requests; give at least one"]
    assert problems("sep=;\n", "csv") == ["1:1: no requests; give at least one"]


def test_columns_without_a_name_may_be_empty_or_missing(requests, problems):
    assert requests("prompt,seed,,\na,7,,\nb,8\nc,9,\n", "csv") == [
        GenerationRequest(prompt=prompt, seed=seed) for prompt, seed in (("a", 7), ("b", 8), ("c", 9))
    ]
    assert problems(",prompt\n0,a\n1,b\n", "csv")[0].startswith("2:1: a value in a column without a name; name")


@pytest.mark.parametrize("name", ["prompt", "negative_prompt", "image", "output"])
@pytest.mark.parametrize("text", ["nan", "NaN", "None", "<NA>", "#REF!", "#N/A"])
def test_what_programs_write_into_empty_cells_is_a_question(requests, problems, name, text):
    columns = "prompt,seed" if name == "prompt" else f"prompt,{name}"
    row, quoted = (f"{text},1", f'"{text}",1') if name == "prompt" else (f"a,{text}", f'a,"{text}"')
    before = "a,1\n" if name == "prompt" else "a,b\n"
    (problem,) = problems(f"{columns}\n{before}{row}\n", "csv")
    assert f'{name}: "{text}" is what a program writes into an empty cell' in problem
    assert problem.startswith("3:")
    assert getattr(requests(f"{columns}\n{quoted}\n", "csv")[0], name) == text


@pytest.mark.parametrize("text", ["1.23457E+18", "1,23457E+18", "1E+18", "1.23457e+18"])
@pytest.mark.parametrize("name", ["seed", "id"])
def test_numbers_that_a_spreadsheet_has_rounded_are_a_question(problems, name, text):
    (problem,) = problems(f"prompt\t{name}\na\t{text}\n", "tsv")
    assert problem.startswith(f"2:3: {name}: {text} may have been rounded by a spreadsheet; ")
