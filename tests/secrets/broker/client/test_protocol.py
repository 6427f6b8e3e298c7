from __future__ import annotations

import asyncio
import os
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.errors import AffiantError
from affiant.secrets.broker.client.protocol import (
    MAX_BODY_FRAME,
    ControlChannel,
    Frame,
    FrameKind,
    read_frame,
    write_frame,
)
from affiant.secrets.names.errors import BrokerGone


def read(data: bytes) -> Frame | None:
    async def scenario() -> Frame | None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read_frame(reader)

    return asyncio.run(scenario())


def test_a_frame_is_read() -> None:
    assert read(b"B\0\0\0\x03abcrest") == Frame(FrameKind.BODY, b"abc")
    assert read(b'H\0\0\0\x07{"a":1}').members() == {"a": 1}
    assert read(b"") is None


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"X\0\0\0\0", "broker.protocol"),
        (b"B\xff\xff\xff\xff", "broker.protocol"),
        (b"B" + struct.pack(">I", MAX_BODY_FRAME + 1), "broker.protocol"),
        (b"H" + struct.pack(">I", (1 << 20) + 1), "broker.protocol"),
        (b"B", BrokerGone.code),
        (b"B\0\0\0\x03ab", BrokerGone.code),
    ],
)
def test_another_frame_is_refused(data: bytes, code: str) -> None:
    with raises_code(code):
        read(data)


@thorough(200)
@given(st.binary(max_size=64))
def test_noise_is_refused_or_a_frame(noise: bytes) -> None:
    try:
        frame = read(noise)
    except AffiantError as error:
        assert error.code in ("broker.protocol", "broker.gone")
        return
    assert frame is None or noise.startswith(frame.kind.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"1", b"{", b'{"a":1,"a":2}', b'{"a":1.5}', b"\xff"])
def test_a_head_is_a_strict_json_object(content: bytes) -> None:
    with raises_code("broker.protocol"):
        Frame(FrameKind.HEAD, content).members()


def test_a_long_body_goes_as_several_frames() -> None:
    async def scenario() -> list[int]:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        other_reader, other_writer = await asyncio.open_unix_connection(sock=theirs)

        async def send() -> None:
            await write_frame(writer, FrameKind.BODY, bytes(MAX_BODY_FRAME * 2 + 5))
            await write_frame(writer, FrameKind.BODY, b"")
            writer.close()

        sending = asyncio.create_task(send())
        sizes = []
        while (frame := await read_frame(other_reader)) is not None:
            sizes.append(len(frame.content))
        await sending
        other_writer.close()
        await asyncio.gather(writer.wait_closed(), other_writer.wait_closed())
        return sizes

    assert asyncio.run(scenario()) == [MAX_BODY_FRAME, MAX_BODY_FRAME, 5, 0]


def test_messages_carry_their_own_descriptors_in_order() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        sender, receiver = ControlChannel(ours), ControlChannel(theirs)
        pipes = [os.pipe() for _ in range(3)]
        try:
            await sender.send({"n": 0, "pad": "x" * 100_000}, (pipes[0][0], pipes[1][0]))
            await sender.send({"n": 1})
            await sender.send({"n": 2}, (pipes[2][0],))
            for at, (_, write_end) in enumerate(pipes):
                os.write(write_end, b"%d" % at)
            got = [await receiver.receive() for _ in range(3)]
            assert [message.members["n"] for message in got] == [0, 1, 2]
            assert [[os.read(each, 9) for each in message.descriptors] for message in got] == [
                [b"0", b"1"],
                [],
                [b"2"],
            ]
            assert all(os.get_inheritable(each) is False for message in got for each in message.descriptors)
            for message in got:
                for each in message.descriptors:
                    os.close(each)
            sender.close()
            assert await receiver.receive() is None
        finally:
            receiver.close()
            for pipe in pipes:
                for end in pipe:
                    os.close(end)

    asyncio.run(scenario())


def test_a_message_longer_than_the_socket_takes_is_sent_whole() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        sender, receiver = ControlChannel(ours), ControlChannel(theirs)
        text = "x" * 3_000_000
        _, message = await asyncio.gather(sender.send({"text": text}), receiver.receive())
        assert message.members == {"text": text}
        sender.close()
        receiver.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\x02[]",
        b"\0\0\0\x02{}",
        b'\0\0\0\x09{"fds":1}',
        b'\0\0\0\x0a{"fds":-1}',
        b'\0\0\0\x0b{"fds":"0"}',
    ],
)
def test_a_message_that_is_none_is_refused(data: bytes) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        receiver = ControlChannel(theirs)
        with ours:
            ours.sendall(data)
            with raises_code("broker.protocol"):
                await receiver.receive()
        receiver.close()

    asyncio.run(scenario())


def test_descriptors_that_nobody_took_are_closed() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        receiver = ControlChannel(theirs)
        read_end, write_end = os.pipe()
        with ours:
            socket.send_fds(ours, [b'\0\0\0\x09{"fds":0}'], [write_end])
            os.close(write_end)
            assert (await receiver.receive()).descriptors == ()
        receiver.close()
        assert os.read(read_end, 1) == b"", "the last writing end is closed"
        os.close(read_end)

    asyncio.run(scenario())


def test_a_message_whose_sender_is_cancelled_is_sent_whole_and_the_next_one_after_it() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        sender, receiver = ControlChannel(ours), ControlChannel(theirs)
        read_end, write_end = os.pipe()
        large = asyncio.create_task(sender.send({"op": "narrow", "grants": "x" * 3_000_000}))
        second = asyncio.create_task(sender.send({"op": "open"}, (write_end,)))
        await asyncio.sleep(0.02)
        assert not large.done(), "the reader has not begun"
        for sending in (large, second):
            sending.cancel()
        await asyncio.gather(large, second, return_exceptions=True)
        os.close(write_end)
        last = asyncio.create_task(sender.send({"op": "last"}))
        got = [await receiver.receive() for _ in range(3)]
        await last
        assert [message.members["op"] for message in got] == ["narrow", "open", "last"]
        (passed,) = got[1].descriptors
        os.close(passed)
        assert os.read(read_end, 1) == b"", "nobody else has it open"
        os.close(read_end)
        sender.close()
        receiver.close()

    asyncio.run(scenario())


def test_what_a_closed_channel_has_not_sent_is_refused() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        sender, receiver = ControlChannel(ours), ControlChannel(theirs)
        sending = asyncio.create_task(sender.send({"text": "x" * 3_000_000}))
        await asyncio.sleep(0.02)
        sender.close()
        with pytest.raises(BrokerGone):
            await sending
        assert await receiver.receive() is None
        receiver.close()

    asyncio.run(scenario())
