"""The control socket: messages whole, descriptors with the message that names them."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.errors import AffiantError, StateError, UnreachableError
from affiant.sandbox.supervisor.launch.control import ControlChannel, Messages, refusal_members, sent_error


def framed(members: object) -> bytes:
    content = canonical(members)
    return struct.pack(">I", len(content)) + content


@thorough(100)
@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3), max_size=5),
    st.integers(1, 20),
)
def test_messages_are_the_same_however_they_are_split(sent, step: int) -> None:
    data = b"".join(framed({f"m{name}": value for name, value in members.items()}) for members in sent)
    messages, got = Messages(), []
    for start in range(0, len(data), step):
        messages.feed(data[start : start + step], ())
        while (message := messages.next()) is not None:
            got.append(dict(message.members))
    assert got == [{f"m{name}": value for name, value in members.items()} for members in sent]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", (1 << 20) + 1),
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 13) + b'{"a":1,"a":2}',
        struct.pack(">I", 4) + b"{} \n",
        framed({"fds": ["stdin"]}),
        framed({"fds": "stdin"}),
        framed({"fds": [1]}),
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    messages = Messages()
    messages.feed(data, ())
    with pytest.raises(AffiantError):
        messages.next()


@thorough(200)
@given(st.binary(max_size=64))
def test_no_bytes_cause_anything_but_a_typed_refusal(data: bytes) -> None:
    messages = Messages()
    messages.feed(data, ())
    try:
        while messages.next() is not None:
            pass
    except AffiantError:
        pass


def test_descriptors_travel_with_the_message_that_names_them() -> None:
    async def scenario() -> None:
        left, right = socket.socketpair()
        here, there = ControlChannel(left), ControlChannel(right)
        read_end, write_end = os.pipe()
        await here.send({"op": "first"})
        await here.send({"op": "run"}, {"stdout": write_end, "stdin": read_end})
        await here.send({"op": "last"})
        os.close(write_end)
        os.close(read_end)
        received = [await there.receive() for _ in range(3)]
        assert [message.members["op"] for message in received] == ["first", "run", "last"]
        descriptors = received[1].descriptors
        assert set(descriptors) == {"stdin", "stdout"}
        assert not any(os.get_inheritable(descriptor) for descriptor in descriptors.values())
        os.write(descriptors["stdout"], b"x")
        assert os.read(descriptors["stdin"], 1) == b"x"
        received[1].close()
        here.close()
        assert await there.receive() is None
        there.close()

    asyncio.run(scenario())


def test_a_large_message_waits_for_the_reader() -> None:
    async def scenario() -> int:
        left, right = socket.socketpair()
        here, there = ControlChannel(left), ControlChannel(right)
        sending = asyncio.create_task(here.send({"text": "x" * 900_000}))
        message = await there.receive()
        await sending
        here.close()
        there.close()
        return len(message.text("text"))

    assert asyncio.run(scenario()) == 900_000


def test_a_missing_member_is_refused_by_name() -> None:
    messages = Messages()
    messages.feed(framed({"op": 1}), ())
    with raises_code("session.control", match="op"):
        messages.next().text("op")


class Unknown(StateError):
    """Whether to try again is not known."""

    retryable = None


@pytest.mark.parametrize(
    "error",
    [
        StateError("no", code="session.not_open"),
        UnreachableError("no answer", hint="Ask again", code="service.silent"),
        Unknown("no", found="x", code="tool.timeout"),
        StateError("no", where="/a: b", found="x", hint="Look", code="files.missing"),
        StateError("/a: no", where="/a", code="files.missing"),
    ],
)
def test_an_error_says_whether_to_try_again_at_the_other_end_and_at_the_one_after_that(error) -> None:
    for _ in range(2):
        sent = sent_error(dict(parse_object(canonical(refusal_members(error)))))
        assert (sent.code, sent.retryable, sent.hint, sent.where, str(sent)) == (
            error.code,
            error.retryable,
            error.hint,
            error.where,
            str(error),
        )
        assert sent.to_json().get("retryable", False) is error.retryable
        error = sent
    assert StateError("another").retryable is False


def test_what_does_not_say_whether_to_try_again_is_not_tried_again() -> None:
    assert sent_error({"code": "a.b", "message": "no"}).retryable is False
    assert sent_error({"code": "a.b", "message": "no", "retryable": "yes"}).retryable is None


def test_descriptors_that_no_message_names_are_closed() -> None:
    messages = Messages()
    read_end, write_end = os.pipe()
    messages.feed(b"", array.array("i", [read_end, write_end]))
    messages.close()
    with pytest.raises(OSError):
        os.fstat(read_end)


def test_a_message_whose_sender_is_cancelled_is_sent_whole_and_the_next_one_after_it() -> None:
    async def scenario() -> None:
        left, right = socket.socketpair()
        here, there = ControlChannel(left), ControlChannel(right)
        read_end, write_end = os.pipe()
        large = asyncio.create_task(here.send({"op": "narrow", "policy": "x" * 900_000}))
        second = asyncio.create_task(here.send({"op": "run"}, {"stdout": write_end}))
        await asyncio.sleep(0.02)
        assert not large.done(), "the reader has not begun"
        for sending in (large, second):
            sending.cancel()
        await asyncio.gather(large, second, return_exceptions=True)
        os.close(write_end)
        finishing = asyncio.create_task(here.send({"op": "finish"}))
        received = [await there.receive() for _ in range(3)]
        await finishing
        assert [message.members["op"] for message in received] == ["narrow", "run", "finish"]
        os.write(received[1].descriptors["stdout"], b"x")
        assert os.read(read_end, 1) == b"x"
        received[1].close()
        assert os.read(read_end, 1) == b"", "nobody else has it open"
        os.close(read_end)
        here.close()
        there.close()

    asyncio.run(scenario())


def test_descriptors_wait_for_a_reader_too() -> None:
    async def scenario() -> None:
        left, right = socket.socketpair()
        here, there = ControlChannel(left), ControlChannel(right)
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        filled = 0
        while True:
            try:
                left.send(framed({"n": filled}))
            except BlockingIOError:
                break
            filled += 1
        read_end, write_end = os.pipe()
        sending = asyncio.create_task(here.send({"op": "run"}, {"stdin": read_end}))
        await asyncio.sleep(0.02)
        assert not sending.done()
        for n in range(filled):
            assert (await there.receive()).members == {"n": n}
        message = await there.receive()
        assert message.members["op"] == "run"
        message.close()
        await sending
        for each in (read_end, write_end):
            os.close(each)
        here.close()
        there.close()

    asyncio.run(scenario())


def test_what_a_closed_channel_has_not_sent_is_an_error_of_whoever_sends() -> None:
    async def scenario() -> None:
        left, right = socket.socketpair()
        here, there = ControlChannel(left), ControlChannel(right)
        sending = asyncio.create_task(here.send({"text": "x" * 900_000}))
        await asyncio.sleep(0.02)
        here.close()
        with pytest.raises(OSError):
            await sending
        assert await there.receive() is None
        there.close()

    asyncio.run(scenario())


def test_a_message_that_is_too_large_is_its_senders_error_and_the_next_one_arrives() -> None:
    async def scenario() -> object:
        ours, theirs = (ControlChannel(each) for each in socket.socketpair())
        try:
            with raises_code("session.control"):
                await ours.send({"op": "run", "argv": ["x" * (1 << 20)]})
            await ours.send({"op": "next"})
            message = await theirs.receive()
            return None if message is None else message.members
        finally:
            ours.close()
            theirs.close()

    assert asyncio.run(scenario()) == {"op": "next"}


def test_descriptors_of_a_message_with_too_many_are_closed() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        channel = ControlChannel(theirs)
        reading, writing = os.pipe()
        many = array.array("i", [writing] * 20)
        ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, many)])
        os.close(writing)
        with raises_code("session.control"):
            await channel.receive()
        os.set_blocking(reading, False)
        assert os.read(reading, 1) == b"", "no copy of the writing end is open"
        os.close(reading)
        channel.close()
        ours.close()

    asyncio.run(scenario())
