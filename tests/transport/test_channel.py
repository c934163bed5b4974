"""Messages arrive whole and in order from any thread, and the other process's end is reported."""

import os
import threading
from pathlib import Path

import pytest

from omni_cli.errors import ProtocolError
from omni_cli.transport.channel import Channel

PATIENCE_S = 30.0


def pair() -> tuple[Channel, Channel]:
    ours, theirs = Channel.pair()
    return ours, Channel(theirs)


def test_a_message_arrives_as_it_was_sent() -> None:
    a, b = pair()
    a.send(b"hello")
    a.send(b"")
    assert b.receive() == (bytearray(b"hello"), [])
    assert b.receive() == (bytearray(b""), [])
    a.close()
    b.close()


def test_messages_larger_than_the_socket_buffer_from_two_threads_stay_whole() -> None:
    a, b = pair()
    payloads = [bytes([i]) * (300_000 + i) for i in range(20)]
    threads = [
        threading.Thread(target=lambda part=part: [a.send(p) for p in part]) for part in (payloads[::2], payloads[1::2])
    ]
    for thread in threads:
        thread.start()
    received = [b.receive() for _ in payloads]
    for thread in threads:
        thread.join()
    bodies = [bytes(message[0]) for message in received if message]
    assert sorted(bodies) == sorted(payloads)
    evens = [body for body in bodies if body[0] % 2 == 0]
    assert evens == payloads[::2]
    a.close()
    b.close()


def test_descriptors_travel_with_their_own_message() -> None:
    a, b = pair()
    read_end, write_end = os.pipe()
    a.send(b"first")
    a.send(b"with", [write_end])
    a.send(b"last")
    os.close(write_end)
    assert b.receive() == (bytearray(b"first"), [])
    message = b.receive()
    assert message is not None
    assert message[0] == b"with"
    (fd,) = message[1]
    assert not os.get_inheritable(fd)
    os.write(fd, b"through")
    os.close(fd)
    assert os.read(read_end, 100) == b"through"
    assert b.receive() == (bytearray(b"last"), [])
    os.close(read_end)
    a.close()
    b.close()


def test_descriptors_from_two_threads_at_once_stay_with_their_messages() -> None:
    a, b = pair()
    files = [os.memfd_create(str(number)) for number in range(8)]
    for number, file in enumerate(files):
        os.write(file, bytes([number]))

    def with_descriptors() -> None:
        for number, file in enumerate(files):
            a.send(b"slot %d" % number + b"x" * 200_000, [file])

    def without() -> None:
        for _ in files:
            a.send(b"done" + b"y" * 200_000)

    threads = [threading.Thread(target=send) for send in (with_descriptors, without)]
    for thread in threads:
        thread.start()
    seen = []
    for _ in range(2 * len(files)):
        received = b.receive()
        assert received is not None
        body, fds = received
        assert len(fds) == body.startswith(b"slot")
        for fd in fds:
            seen.append((int(body[5:6]), os.pread(fd, 1, 0)[0]))
            os.close(fd)
    for thread in threads:
        thread.join()
    assert seen == [(number, number) for number in range(len(files))]
    for file in files:
        os.close(file)
    a.close()
    b.close()


def test_no_other_process_can_connect_to_a_channel() -> None:
    ours, theirs = Channel.pair()
    for end in (ours._socket, theirs):
        assert (end.getsockname(), end.getpeername()) == ("", ""), "a name would be something to connect to"
        assert not end.get_inheritable()
    theirs.close()
    ours.close()


def test_messages_sent_before_the_end_of_file_are_received() -> None:
    a, b = pair()
    a.send(b"last words")
    a.close()
    assert b.receive() == (bytearray(b"last words"), [])
    assert b.receive() is None
    b.close()


def test_a_truncated_message_is_end_of_file() -> None:
    ours, theirs = Channel.pair()
    theirs.send(b"og\xff\x00\x00\x00\x00half")
    theirs.close()
    assert ours.receive() is None
    ours.close()


def test_closing_wakes_a_receiver() -> None:
    a, b = pair()
    received: list[object] = []
    thread = threading.Thread(target=lambda: received.append(a.receive()))
    thread.start()
    b.close()
    thread.join(PATIENCE_S)
    assert received == [None]
    a.close()


def test_read_available_does_not_wait_for_the_rest_of_a_message() -> None:
    ours, theirs = Channel.pair()
    assert ours.read_available()
    assert [*ours.messages()] == []
    theirs.send(b"og\x05\x00\x00\x00\x00he")
    assert ours.read_available()
    assert [*ours.messages()] == []
    theirs.send(b"lloog\x01\x00\x00\x00\x00!og")
    assert ours.read_available()
    assert [*ours.messages()] == [(bytearray(b"hello"), []), (bytearray(b"!"), [])]
    theirs.close()
    assert not ours.read_available()
    ours.close()


def test_bytes_that_are_not_a_message_raise() -> None:
    ours, theirs = Channel.pair()
    theirs.send(b"Segmentation fault")
    with pytest.raises(ProtocolError, match="Segmentation fault"):
        ours.receive()
    theirs.close()
    ours.close()


def test_descriptors_that_were_not_received_are_closed_with_the_channel() -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    a, b = pair()
    read_end, write_end = os.pipe()
    a.send(b"with", [read_end, write_end])
    os.close(read_end)
    os.close(write_end)
    assert b.read_available()
    a.close()
    b.close()
    assert len([*Path("/proc/self/fd").iterdir()]) == before
