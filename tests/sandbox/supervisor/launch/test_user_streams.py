"""The user's descriptors: waited on, never changed, closed only when nobody uses them."""

from __future__ import annotations

import fcntl
import os
import threading
import time

from affiant.sandbox.supervisor.launch.user_streams import UserOutput, UserStreams, feed_input


def test_a_large_output_reaches_a_slow_reader_whole() -> None:
    read_end, write_end = os.pipe()
    output, data, got = UserOutput(write_end), os.urandom(300_000), b""
    thread = threading.Thread(target=lambda: (output.write(data, threading.Event()), output.close()))
    thread.start()
    while piece := os.read(read_end, 10_000):
        got += piece
        time.sleep(0.001)
    thread.join(5)
    os.close(read_end)
    assert got == data


def test_the_flags_of_a_shared_descriptor_are_left_alone() -> None:
    read_end, write_end = os.pipe()
    before = fcntl.fcntl(write_end, fcntl.F_GETFL)
    output = UserOutput(write_end)
    output.write(b"x", threading.Event())
    assert fcntl.fcntl(write_end, fcntl.F_GETFL) == before
    output.close()
    os.close(read_end)


def test_a_user_who_has_gone_is_not_waited_for() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    output = UserOutput(write_end)
    output.write(b"x" * 1_000_000, threading.Event())
    output.close()
    output.write(b"after", threading.Event())
    output.close()


def test_a_user_who_does_not_read_does_not_hold_the_end_up() -> None:
    read_end, write_end = os.pipe()
    output, over = UserOutput(write_end), threading.Event()
    thread = threading.Thread(target=output.write, args=(b"x" * 1_000_000, over))
    thread.start()
    time.sleep(0.05)
    over.set()
    began = time.monotonic()
    output.close()
    thread.join(5)
    assert time.monotonic() - began < 1
    os.close(read_end)


def test_a_closed_descriptors_number_is_never_written_to_again() -> None:
    read_end, write_end = os.pipe()
    output = UserOutput(write_end)
    output.close()
    other_read, other_write = os.pipe()  # takes the same number
    output.write(b"not for you", threading.Event())
    os.set_blocking(other_read, False)
    try:
        assert os.read(other_read, 100) == b""
    except BlockingIOError:
        pass
    for descriptor in (read_end, other_read, other_write):
        os.close(descriptor)


def test_input_is_copied_to_its_end() -> None:
    source_read, source_write = os.pipe()
    sink_read, sink_write = os.pipe()
    thread = threading.Thread(target=feed_input, args=(source_read, sink_write, threading.Event()))
    thread.start()
    os.write(source_write, b"hello")
    os.close(source_write)
    assert os.read(sink_read, 100) == b"hello"
    assert os.read(sink_read, 100) == b""
    thread.join(5)
    os.close(sink_read)


def test_input_is_not_waited_for_when_the_command_is_over() -> None:
    source_read, source_write = os.pipe()
    sink_read, sink_write = os.pipe()
    over = threading.Event()
    thread = threading.Thread(target=feed_input, args=(source_read, sink_write, over))
    thread.start()
    over.set()
    thread.join(2)
    assert not thread.is_alive()
    os.close(source_write)
    os.close(sink_read)


def test_streams_close_what_is_left_of_them() -> None:
    pipes = [os.pipe() for _ in range(3)]
    streams = UserStreams(pipes[0][0], pipes[1][1], pipes[2][1])
    taken = streams.take_stdin()
    assert taken == pipes[0][0]
    streams.close()
    os.close(taken)
    for descriptor in (pipes[0][1], pipes[1][0], pipes[2][0]):
        os.close(descriptor)
