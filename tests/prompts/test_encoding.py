"""Files in other encodings than UTF-8 are read as the same text, or their rows are mistakes: never other words."""

import io

import pytest

from omni_cli.errors import UsageError
from omni_cli.prompts import read
from omni_cli.prompts.encoding import single_byte_encoding
from omni_cli.prompts.reader import ReadOptions

ROWS = '{"prompt": "ein grüner Kreis – größer", "seed": 7}\n{"prompt": "日本 💥"}\n'


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("chunk", [1, 5, 1 << 16])
def test_wide_encodings_are_told_and_read(encoding, mark, chunk):
    content = (mark + ROWS).encode(encoding)

    class Pieces(io.RawIOBase):
        def __init__(self):
            self.at = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            piece = content[self.at : self.at + chunk]
            self.at += len(piece)
            buffer[: len(piece)] = piece
            return len(piece)

    first, second = read("-", binary=Pieces())
    assert (first.request.prompt, first.at("seed")) == ("ein grüner Kreis – größer", (1, 49))
    assert (second.request.prompt, second.line) == ("日本 💥", 2)


def test_what_cannot_be_decoded_is_a_mistake_of_its_row(rows):
    content = "\ufeffa cat\n".encode("utf-16-le") + b"\x00\xd8" + "b\nc".encode("utf-16-le") + b"x"
    first, second, third = rows(content, "txt")
    assert first.request.prompt == "a cat"
    assert "is not UTF-8" in second.cause
    assert "is not UTF-8" in third.cause


WESTERN = [
    *("ein grüner Kreis – groß", "un été à la plage, l’eau", "une fée créée", "año nuevo ¿qué?", "smörgåsbord"),
    "“a cat” costs 5 € …",
]
OTHERS = [
    ("красный круг", "cp1251"),
    ("czerwone kółko, żółty kąt", "cp1250"),
    ("日本の猫", "shift_jis"),
    ("κόκκινος κύκλος", "cp1253"),
    ("一只红色的猫", "gbk"),
    ("빨간 고양이", "euc-kr"),
    ("紅色的圓形", "big5"),
    ("červený kruh, žlutý čtverec", "cp1250"),
    ("kırmızı daire ışık", "cp1254"),
]


@pytest.mark.parametrize("text", WESTERN)
def test_western_text_of_single_bytes_is_told(text):
    binary = io.BytesIO(b"prompt\r\n" + text.encode("cp1252"))
    binary.seek(2)
    assert single_byte_encoding(binary) == "cp1252"
    assert binary.tell() == 2


@pytest.mark.parametrize(("text", "encoding"), OTHERS)
def test_other_text_is_not_taken_for_western(text, encoding):
    assert single_byte_encoding(io.BytesIO(b"prompt\r\n" + text.encode(encoding))) is None


@pytest.mark.parametrize("text", [*WESTERN, *(text for text, _ in OTHERS)])
def test_utf8_is_never_taken_for_another_encoding(text):
    assert single_byte_encoding(io.BytesIO(text.encode())) is None


@pytest.mark.parametrize(("text", "encoding"), OTHERS)
def test_a_named_encoding_is_used_for_any_script(requests, text, encoding):
    (request,) = requests(f'prompt\r\n"{text}"'.encode(encoding), encoding=encoding)
    assert request.prompt == text


@pytest.mark.parametrize("encoding", ["nothing", "hex", "rot13", "zip", "\0", "../x"])
def test_an_unknown_encoding_is_refused(encoding):
    with pytest.raises(UsageError, match=r"the encoding .* is not known; name one such as"):
        list(read("-", binary=io.BytesIO(b"a"), options=ReadOptions(encoding=encoding)))
