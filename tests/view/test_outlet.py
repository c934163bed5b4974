"""A stream that goes away is let go of, once, without an exception."""

import io
import os
import threading
from typing import Any

from omni_cli.view.outlet import Outlet


def test_closed_pipe_is_reported_once_and_leaves_nothing_for_the_interpreter_to_flush() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        calls: list[str] = []
        outlet = Outlet(stream, on_gone=calls.append)
        outlet.write("one\n")
        outlet.write("two\n")
        assert calls == ["Broken pipe (EPIPE)"]
        assert outlet.gone
        stream.flush()  # would raise BrokenPipeError if anything were left in the buffer


def test_terminal_that_hangs_up_is_silent(terminal: Any) -> None:
    outlet = Outlet(terminal.stream)
    assert outlet.isatty()
    outlet.write("before\n")
    terminal.hang_up()
    outlet.write("after\n")
    assert outlet.gone
    assert not outlet.isatty()
    assert terminal.shown() == "before\r\n"


def test_non_blocking_descriptor_gets_every_byte() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    data = bytes(300_000)  # more than a pipe holds
    received = bytearray()

    def drain() -> None:
        while chunk := os.read(read, 1 << 16):
            received.extend(chunk)

    reader = threading.Thread(target=drain)
    with os.fdopen(write, "w") as stream:
        outlet = Outlet(stream)
        reader.start()
        outlet.write_bytes(data)
    reader.join()
    os.close(read)
    assert bytes(received) == data


def test_what_the_stream_had_buffered_comes_first() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        stream.write("first ")
        Outlet(stream).write("second")
    assert os.read(read, 100) == b"first second"
    os.close(read)


def test_text_that_the_encoding_lacks_is_escaped() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w", encoding="ascii") as stream:
        Outlet(stream).write("猫 ok")
    assert os.read(read, 100) == b"\\u732b ok"
    os.close(read)


def test_stream_without_a_descriptor_and_a_closed_one() -> None:
    stream = io.StringIO()
    outlet = Outlet(stream)
    outlet.write("猫\n")
    assert stream.getvalue() == "猫\n"
    stream.close()
    outlet.write("more")
    assert outlet.gone
    assert not outlet.isatty()
