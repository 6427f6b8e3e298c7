from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.errors import (
    PlatformFullError,
    PlatformReplyError,
    PlatformRequestError,
)
from affiant.attestation.simulated.platform.registers import launch_registers
from affiant.attestation.simulated.served.messages import (
    MAX_REQUEST,
    CreateTD,
    Extend,
    GetBootLog,
    GetCollateral,
    GetRoot,
    GetStatus,
    PlatformRequest,
    Quote,
    Report,
    TDRequest,
    encode_refusal,
    encode_reply,
    encode_request,
    parse_platform_request,
    parse_registers,
    parse_reply,
    parse_td_request,
    registers_to_json,
)
from affiant.errors import MalformedError

PLATFORM_REQUESTS: list[PlatformRequest] = [
    CreateTD(Image.GATEWAY, b"c" * 48),
    CreateTD(Image.SESSION, bytes(48)),
    GetCollateral(),
    GetRoot(),
    GetBootLog(Image.SESSION),
    GetStatus(),
]
TD_REQUESTS: list[TDRequest] = [Report(), Extend(3, b"d" * 48), Extend(0, bytes(48)), Quote(b"r" * 64)]


@pytest.mark.parametrize("request_", PLATFORM_REQUESTS)
def test_a_platform_request_reads_back(request_: PlatformRequest) -> None:
    assert parse_platform_request(encode_request(request_, "id")) == ("id", request_)


@pytest.mark.parametrize("request_", TD_REQUESTS)
def test_a_td_request_reads_back(request_: TDRequest) -> None:
    assert parse_td_request(encode_request(request_, "id")) == ("id", request_)


@pytest.mark.parametrize("request_", PLATFORM_REQUESTS)
def test_a_td_socket_understands_no_platform_request(request_: PlatformRequest) -> None:
    with pytest.raises(PlatformRequestError, match="no operation of this socket"):
        parse_td_request(encode_request(request_, "id"))


@pytest.mark.parametrize("request_", TD_REQUESTS)
def test_the_platforms_socket_understands_no_td_request(request_: TDRequest) -> None:
    with pytest.raises(PlatformRequestError, match="no operation of this socket"):
        parse_platform_request(encode_request(request_, "id"))


@thorough(100)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_malformed_and_nothing_else(packet: bytes) -> None:
    for parse in (parse_platform_request, parse_td_request):
        with suppress(
            MalformedError
        ):  # any other error fails; Hypothesis finds genuine requests in the source, too
            assert parse(packet)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@thorough(150)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "id": json_values,
            "op": st.sampled_from(["create_td", "quote", "extend", "report", "root", "x"]) | json_values,
            "image": st.sampled_from(["gateway", "session"]) | json_values,
            "mrconfigid": json_values,
            "digest": json_values,
            "rtmr": json_values,
            "report_data": json_values,
        },
    )
)
def test_well_formed_json_of_another_shape_is_malformed_and_nothing_else(members: dict[str, object]) -> None:
    for parse in (parse_platform_request, parse_td_request):
        try:
            parse(canonical(members))
        except MalformedError:
            continue


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"mrtd": "00" * 48},
        {"rtmr0": "00" * 48},
        {"mrconfigid": "00" * 47},
        {"mrconfigid": "CC" * 48},
        {"mrconfigid": None},
        {"image": "GATEWAY"},
        {"image": ["gateway"]},
        {"image": {}},
        {"id": ""},
        {"id": "i" * 65},
        {"id": 7},
        {"op": ["create_td"]},
    ],
)
def test_a_launch_takes_an_image_and_an_mrconfigid_and_nothing_else(change: dict[str, object]) -> None:
    members = {"id": "id", "op": "create_td", "image": "gateway", "mrconfigid": "cc" * 48}
    parse_platform_request(canonical(members))
    with pytest.raises(MalformedError):
        parse_platform_request(canonical(members | change))


@pytest.mark.parametrize("rtmr", [True, "3", None, 3.0])
def test_a_register_number_is_an_integer(rtmr: object) -> None:
    packet = json.dumps({"digest": "00" * 48, "id": "i", "op": "extend", "rtmr": rtmr}, separators=(",", ":"))
    with pytest.raises(MalformedError):
        parse_td_request(packet.encode())


def test_a_packet_beyond_the_bound_is_refused() -> None:
    with pytest.raises(MalformedError, match="large"):
        parse_td_request(b'{"id":"' + b"i" * MAX_REQUEST + b'","op":"report"}')


def test_a_reply_answers_its_own_request_only() -> None:
    packet = encode_reply("mine", {"a": 1})
    assert parse_reply(packet, "mine") == {"a": 1}
    with pytest.raises(PlatformReplyError, match="another request"):
        parse_reply(packet, "yours")
    with pytest.raises(PlatformReplyError):
        parse_reply(b'{"id":null,"ok":{}}', "mine")


@pytest.mark.parametrize("identifier", ["mine", None])
def test_a_refusal_carries_code_and_message(identifier: str | None) -> None:
    reply = parse_reply(encode_refusal(identifier, PlatformFullError("no room", expected="less")), "mine")
    assert reply == ("platform.full", "no room; expected less")


@thorough(60)
@given(st.binary(max_size=200))
def test_a_garbled_reply_is_malformed_and_nothing_else(packet: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_reply(packet, "mine")


def test_registers_read_back_and_none_may_be_missing() -> None:
    registers = launch_registers(
        mrtd=b"m" * 48,
        mrconfigid=b"c" * 48,
        td_id=b"i" * 32,
        rtmrs=(b"0" * 48, b"1" * 48, b"2" * 48, bytes(48)),
    )
    members = registers_to_json(registers)
    assert parse_registers(members) == registers
    for name in members:
        with pytest.raises(PlatformReplyError, match=name):
            parse_registers({key: value for key, value in members.items() if key != name})
