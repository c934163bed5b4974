import pytest

from omni_cli.request import Adapter, GenerationRequest


def test_cells_become_fields_and_empty_ones_say_nothing(requests):
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


def test_a_line_break_in_quotes_stays_and_lines_are_physical(rows):
    first, fault, last = rows('prompt,seed\n"a\n""b"",\n",1\n\n,,\n"c\nd",x\ne,2', "csv")
    assert (first.request.prompt, first.line, first.at("seed")) == ('a\n"b",\n', 2, (4, 3))
    assert (fault.line, fault.column, fault.field) == (8, 4, "seed")
    assert (last.request.prompt, last.line, last.index) == ("e", 9, 2)


def test_tabs_separate_and_commas_do_not(requests):
    assert requests('prompt\tseed\na, b\t1\n"c\td"\t2', "tsv") == [
        GenerationRequest(prompt="a, b", seed=1),
        GenerationRequest(prompt="c\td", seed=2),
    ]


def test_every_fault_of_a_record_is_placed_at_its_cell(faults):
    text = 'prompt,seed,fps,extra,output\na,1.5,nan,"{""x"": 1,, ""y"": 2}",../x\n'
    assert faults(text, "csv") == [
        "2:3: seed: 1.5 is not whole; give a whole number from 0 to 9223372036854775807",
        '2:7: fps: "nan" is text; give a number above 0 up to 1000',
        '2:11: extra: unexpected "," (character 9 of the cell); put the field\'s name here, in straight double quotes',
        '2:35: output: "../x" leaves the output folder; give a relative path without ..',
    ]


def test_faults_of_the_header_are_all_told_and_rows_still_read(rows, faults):
    text = "prompt,,promt,steps,num_inference_steps\na,b,c,4,5\n"
    assert faults(text, "csv") == [
        "1:8: a column without a name; name the field",
        '1:9: unknown field "promt"; did you mean "prompt"?',
        '1:21: num_inference_steps: is given as "steps" and as "num_inference_steps"; keep one',
    ]
    assert rows(text, "csv")[-1].request == GenerationRequest(prompt="a", num_inference_steps=4)


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("a cat,1", "1:1: the first line names no field; begin with the names of the columns, such as prompt and seed"),
        ("prompt;seed", "1:1: the first line names no field; cells are separated by commas, not by semicolons"),
        ("seed,fps", "1:1: no column gives a prompt; add a column named prompt"),
    ],
)
def test_a_header_without_what_is_needed_is_one_problem(faults, header, fault):
    assert faults(f"{header}\n1,2\n3,4", "csv") == [fault]


def test_too_many_and_too_few_cells_are_problems(faults):
    advice = "a cell that holds commas or line breaks needs double quotes around it"
    assert faults("prompt,seed\na\nb,1,\nc,1", "csv") == [
        f"2:2: cells in the row: 1, in the header: 2; {advice}",
        f"3:5: cells in the row: 3, in the header: 2; {advice}",
    ]


def test_malformed_quotes_are_problems(faults):
    assert faults('prompt,seed\n"a"b,1\nc "d",1\n"e,1\nf,2\n', "csv") == [
        '2:4: text after the closing quote; write a quote in a cell as ""',
        '4:1: a quoted cell without its closing quote; write a quote in a cell as ""',
    ]


def test_a_header_alone_holds_no_requests(faults):
    assert faults("prompt,seed\n", "csv") == ["1:1: no requests; give at least one"]


def test_invalid_utf8_is_a_problem_in_header_and_rows(faults):
    found = faults(b"prompt,x\xff\na\xff,\nb,", "csv")
    assert [one for one in found if "UTF-8" in one] == [
        "1:9: byte 0xff at byte 9 of the row is not UTF-8; save the file as UTF-8",
        "2:2: byte 0xff at byte 2 of the row is not UTF-8; save the file as UTF-8",
    ]
