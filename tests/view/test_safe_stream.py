"""A stream that goes away raises nothing and is reported once."""

import io
import os
import threading
from typing import Any

from omni_cli.view.safe_stream import SafeStream


def test_a_closed_pipe_is_reported_once_and_leaves_nothing_to_flush() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        calls: list[str] = []
        output = SafeStream(stream, on_broken=calls.append)
        output.write("one\n")
        output.write("two\n")
        assert calls == ["Broken pipe (EPIPE)"]
        assert output.broken
        stream.flush()  # would raise BrokenPipeError if anything were left in the buffer


def test_a_terminal_that_hangs_up_is_silent(terminal: Any) -> None:
    output = SafeStream(terminal.stream)
    assert output.isatty()
    output.write("before\n")
    terminal.hang_up()
    output.write("after\n")
    assert output.broken
    assert not output.isatty()
    assert terminal.shown() == "before\r\n"


def test_a_non_blocking_descriptor_gets_every_byte() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    data = bytes(300_000)  # more than a pipe holds
    received = bytearray()

    def drain() -> None:
        while chunk := os.read(read, 1 << 16):
            received.extend(chunk)

    reader = threading.Thread(target=drain)
    with os.fdopen(write, "w") as stream:
        output = SafeStream(stream)
        reader.start()
        output.write_bytes(data)
    reader.join()
    os.close(read)
    assert bytes(received) == data


def test_text_buffered_in_the_stream_comes_first() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        stream.write("first ")
        SafeStream(stream).write("second")
    assert os.read(read, 100) == b"first second"
    os.close(read)


def test_characters_that_the_encoding_lacks_are_escaped() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w", encoding="ascii") as stream:
        SafeStream(stream).write("猫 ok")
    assert os.read(read, 100) == b"\\u732b ok"
    os.close(read)


def test_a_stream_without_a_descriptor_is_written_until_closed() -> None:
    stream = io.StringIO()
    output = SafeStream(stream)
    output.write("猫\n")
    assert stream.getvalue() == "猫\n"
    stream.close()
    output.write("more")
    assert output.broken
    assert not output.isatty()
