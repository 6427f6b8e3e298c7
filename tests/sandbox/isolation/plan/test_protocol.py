"""Frames: one packet each, bounded, with their descriptors; anything else is refused and leaks nothing."""

import array
import os
import socket

import pytest

from affiant.sandbox.isolation.plan.errors import FrameError
from affiant.sandbox.isolation.plan.protocol import MAX_FRAME, control_pair, receive_frame, send_frame


@pytest.fixture
def pair():
    ours, theirs = control_pair()
    with ours, theirs:
        yield ours, theirs


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_frame_and_its_descriptors_arrive_together(pair):
    ours, theirs = pair
    read, write = os.pipe()
    send_frame(ours, {"id": 1, "do": "x"}, (read, write))
    members, received = receive_frame(theirs)
    assert members == {"id": 1, "do": "x"}
    assert len(received) == 2
    assert not any(os.get_inheritable(fd) for fd in received)
    os.write(received[1], b"through")
    assert os.read(read, 10) == b"through"
    for fd in (read, write, *received):
        os.close(fd)


def test_a_closed_socket_is_the_end(pair):
    ours, theirs = pair
    ours.close()
    assert receive_frame(theirs) is None


def test_the_largest_frame_fits_and_a_larger_one_is_refused(pair):
    ours, theirs = pair
    send_frame(ours, {"x": "a" * (MAX_FRAME - 8)})
    assert len(receive_frame(theirs)[0]["x"]) == MAX_FRAME - 8
    with pytest.raises(FrameError):
        send_frame(ours, {"x": "a" * MAX_FRAME})


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"[1]",
        b'{"a": 1}',
        b'{"a":1,"a":1}',
        b'{"a":1.5}',
        b'{"b":1,"a":2}',
        b"\xff",
        b"{}" + b" " * MAX_FRAME,
    ],
)
def test_what_is_not_canonical_is_refused_and_its_descriptors_are_closed(pair, data):
    ours, theirs = pair
    before = open_descriptors()
    ours.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))])
    with pytest.raises(FrameError):
        receive_frame(theirs)
    assert open_descriptors() == before


def test_too_many_descriptors_are_refused_and_closed(pair):
    ours, theirs = pair
    before = open_descriptors()
    ours.sendmsg([b"{}"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 9))])
    with pytest.raises(FrameError, match="incomplete"):
        receive_frame(theirs)
    assert open_descriptors() == before
