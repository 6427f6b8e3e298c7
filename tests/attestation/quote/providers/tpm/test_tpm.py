"""The TPM client against a real TPM 2.0 (swtpm), with tpm2-tools as the second opinion; and against hostile answers."""

from __future__ import annotations

import hashlib
import os
import pty
import socket
import struct
import threading
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.quote.providers.software_tpm import SoftwareTPM
from tests.properties import thorough

from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
    SettingsInvalid,
    TPMRefused,
)
from affiant.attestation.quote.providers.tpm.tpm import TPM
from affiant.attestation.quote.providers.tpm.tpm_codes import name_of_code
from affiant.attestation.quote.providers.tpm.tpm_device import TPMDevice, TPMSocket
from affiant.attestation.quote.providers.tpm.tpm_quote import parse_tpm_quote
from affiant.errors import AffiantError

INDEX = 0x01400001
KEY = 0x81000003
NONCE = hashlib.sha256(b"a verifier's nonce").digest()
NV_READ_PUBLIC, READ_PUBLIC, PCR_READ, QUOTE, NV_READ = 0x169, 0x173, 0x17E, 0x158, 0x14E


@pytest.fixture
def tpm(software_tpm: SoftwareTPM) -> TPM:
    return TPM(software_tpm.transport())


@pytest.fixture
def index(software_tpm: SoftwareTPM) -> Iterator[bytes]:
    """An NV index of more than one piece, written by the tools."""
    content = hashlib.shake_256(b"content").digest(1300)
    (software_tpm.folder / "content").write_bytes(content)
    software_tpm.tool("tpm2_nvdefine", "-C", "o", "-s", "1300", "-a", "ownerread|ownerwrite", hex(INDEX))
    software_tpm.tool("tpm2_nvwrite", "-C", "o", "-i", "content", hex(INDEX))
    yield content
    software_tpm.tool("tpm2_nvundefine", "-C", "o", hex(INDEX))


# -- a real TPM ---------------------------------------------------------------------------------------------------


def test_an_index_reads_as_the_tools_wrote_it(tpm: TPM, index: bytes) -> None:
    assert tpm.nv_size(INDEX) == 1300
    assert tpm.nv_read(INDEX) == index


def test_the_key_is_the_one_that_the_tools_see(tpm: TPM, software_tpm: SoftwareTPM) -> None:
    software_tpm.tool("tpm2_readpublic", "-c", hex(KEY), "-f", "pem", "-o", "key.pem")
    theirs = load_pem_public_key((software_tpm.folder / "key.pem").read_bytes())
    assert isinstance(theirs, RSAPublicKey)
    assert tpm.read_public(KEY).public_numbers() == theirs.public_numbers()


def test_a_quote_verifies_here_and_by_the_tools(tpm: TPM, software_tpm: SoftwareTPM) -> None:
    software_tpm.tool("tpm2_pcrextend", f"11:sha256={'5a' * 32}")
    signed = tpm.quote(KEY, NONCE, (0, 11, 23))
    quote = parse_tpm_quote(signed.message, signed.signature)
    quote.verify(tpm.read_public(KEY), tpm.pcr_read((0, 11, 23)))
    assert (quote.nonce, quote.selected) == (NONCE, (0, 11, 23))
    software_tpm.tool("tpm2_readpublic", "-c", hex(KEY), "-f", "pem", "-o", "key.pem")
    (software_tpm.folder / "message").write_bytes(signed.message)
    (software_tpm.folder / "signature").write_bytes(signed.signature)
    software_tpm.tool(
        "tpm2_checkquote",
        "-u",
        "key.pem",
        "-m",
        "message",
        "-s",
        "signature",
        "-g",
        "sha256",
        "-q",
        NONCE.hex(),
    )


def test_all_pcrs_are_read_eight_at_a_time(tpm: TPM, software_tpm: SoftwareTPM) -> None:
    values = tpm.pcr_read(range(24))
    assert sorted(values) == list(range(24))
    theirs = software_tpm.tool("tpm2_pcrread", "sha256:17")
    assert values[17].hex() in theirs.lower()


def test_an_index_is_made_and_written(tpm: TPM, software_tpm: SoftwareTPM) -> None:
    data = hashlib.shake_256(b"data").digest(700)
    tpm.nv_define(0x01400005, 700)
    tpm.nv_write(0x01400005, data)
    assert tpm.nv_read(0x01400005) == data
    software_tpm.tool("tpm2_nvread", "-C", "o", "0x01400005", "-o", "read")
    assert (software_tpm.folder / "read").read_bytes() == data
    with pytest.raises(TPMRefused, match="TPM_RC_NV_DEFINED") as refused:
        tpm.nv_define(0x01400005, 700)
    assert refused.value.return_code == 0x14C
    software_tpm.tool("tpm2_nvundefine", "-C", "o", "0x01400005")


def test_what_is_not_there_is_absent_and_named(tpm: TPM) -> None:
    with pytest.raises(ProviderAbsent, match="TPM2_NV_ReadPublic.*TPM_RC_HANDLE at handle 1"):
        tpm.nv_read(0x01400009)
    with pytest.raises(ProviderAbsent, match="TPM2_ReadPublic.*TPM_RC_HANDLE"):
        tpm.read_public(0x81000009)
    tpm.nv_define(0x01400006, 64)
    with pytest.raises(ProviderAbsent, match="TPM_RC_NV_UNINITIALIZED"):
        tpm.nv_read(0x01400006)


def test_an_index_that_wants_a_password_is_denied(tpm: TPM, software_tpm: SoftwareTPM) -> None:
    software_tpm.tool(
        "tpm2_nvdefine", "-C", "o", "-s", "8", "-a", "authread|authwrite", "-p", "x", "0x01400007"
    )
    with pytest.raises(ProviderDenied, match="TPM_RC_NV_AUTHORIZATION"):
        tpm.nv_write(0x01400007, bytes(8))


def test_a_key_that_quotes_nothing_is_refused_with_its_code(tpm: TPM, software_tpm: SoftwareTPM) -> None:
    software_tpm.tool("tpm2_createprimary", "-C", "o", "-c", "storage.ctx")  # decrypts, and does not sign
    software_tpm.tool("tpm2_evictcontrol", "-C", "o", "-c", "storage.ctx", "0x81000004")
    software_tpm.tool("tpm2_flushcontext", "-t")
    with pytest.raises(TPMRefused, match=r"TPM2_Quote.*TPM_RC_KEY at handle 1") as refused:
        tpm.quote(0x81000004, NONCE, (0,))
    assert refused.value.return_code == 0x19C
    assert tpm.read_public(0x81000004).key_size == 2048  # it has a cipher in its parameters


@pytest.mark.parametrize("pcrs", [(), (24,), (-1,), (0, 99)])
def test_no_such_pcr_is_not_asked(pcrs: tuple[int, ...]) -> None:
    tpm = TPM(Scripted([]))
    with pytest.raises(SettingsInvalid):
        tpm.quote(KEY, NONCE, pcrs)
    if pcrs:
        with pytest.raises(SettingsInvalid):
            tpm.pcr_read(pcrs)


# -- hostile answers ----------------------------------------------------------------------------------------------


class Scripted:
    """Answers commands one by one, the last answer for ever."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.asked = 0

    def transmit(self, command: bytes) -> bytes:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


def response(body: bytes, *, code: int = 0, tag: int = 0x8001) -> bytes:
    return struct.pack(">HII", tag, 10 + len(body), code) + body


def authorised(parameters: bytes) -> bytes:
    return response(struct.pack(">I", len(parameters)) + parameters + bytes(5), tag=0x8002)


def nv_public(index: int = INDEX, size: int = 64) -> bytes:
    public = struct.pack(">IHIHH", index, 0x0B, 0, 0, size)
    return response(struct.pack(">H", len(public)) + public + b"\0\0")


def piece(data: bytes) -> bytes:
    return authorised(struct.pack(">H", len(data)) + data)


def test_the_scripted_form_is_the_real_one() -> None:
    assert TPM(Scripted([nv_public(), piece(b"\x05" * 64)])).nv_read(INDEX) == b"\x05" * 64


@pytest.mark.parametrize(
    "answers",
    [
        [b""],
        [response(b"")],
        [nv_public()[:-1]],
        [nv_public() + b"\0"],
        [nv_public(index=INDEX + 1)],
        [nv_public(size=20_000)],
        [response(b"", tag=0x8002)],
        [nv_public(), piece(bytes(63))],
        [nv_public(), piece(bytes(65))],
        [nv_public(), piece(b"")],
        [nv_public(), response(piece(bytes(64))[10:], tag=0x8001)],
        [nv_public(), authorised(b"\0")],
        [nv_public(), piece(bytes(64)) + b"\0"],
    ],
)
def test_an_answer_of_another_form_is_refused(answers: list[bytes]) -> None:
    with pytest.raises(ResponseRefused):
        TPM(Scripted(answers)).nv_read(INDEX)


@pytest.mark.parametrize(
    "selection", [b"\0\0\0\0", b"\0\0\0\1\0\4\3\1\0\0", b"\0\0\0\1\0\x0b\3\0\0\0", b"\0\0\0\1\0\x0b\3\2\0\0"]
)
def test_pcrs_of_another_bank_or_number_are_refused(selection: bytes) -> None:
    digests = struct.pack(">IH", 1, 32) + bytes(32)
    with pytest.raises(ResponseRefused):
        TPM(Scripted([response(bytes(4) + selection + digests)])).pcr_read((0,))


@thorough(300)
@given(data=st.binary(max_size=120), code=st.sampled_from((0, 0, 0, 0x18B, 0x922, 0x101)), tag=st.booleans())
def test_no_answer_causes_anything_but_a_refusal(data: bytes, code: int, tag: bool) -> None:
    tpm = TPM(Scripted([response(data, code=code, tag=0x8002 if tag else 0x8001)]))
    calls: tuple[Callable[[], object], ...] = (
        lambda: tpm.nv_read(INDEX),
        lambda: tpm.read_public(KEY),
        lambda: tpm.quote(KEY, NONCE, (0,)),
        lambda: tpm.pcr_read((0, 1)),
    )
    for call in calls:
        try:
            call()
        except AffiantError as refused:
            assert refused.code in ("source.response", "source.absent", "source.busy", "tpm.refused")


def test_a_tpm_that_asks_to_wait_is_asked_three_times() -> None:
    retry = response(b"", code=0x922)
    patient = Scripted([retry, retry, nv_public(), piece(bytes(64))])
    assert TPM(patient).nv_read(INDEX) == bytes(64)
    busy = Scripted([retry])
    with pytest.raises(ProviderBusy, match="TPM_RC_RETRY"):
        TPM(busy).nv_size(INDEX)
    assert busy.asked == 3


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x18B, "TPM_RC_HANDLE at handle 1 (0x18b)"),
        (0x1D5, "TPM_RC_SIZE at parameter 1 (0x1d5)"),
        (0x98E, "TPM_RC_AUTH_FAIL at session 1 (0x98e)"),
        (0x922, "TPM_RC_RETRY (0x922)"),
        (0x14A, "TPM_RC_NV_UNINITIALIZED (0x14a)"),
        (0x100, "TPM_RC_INITIALIZE (0x100)"),
        (0x1BF, "0x1bf"),
        (0x00B0143, "0xb0143"),
        (0x1E, "0x1e"),
    ],
)
def test_a_return_code_is_named_as_the_library_names_it(code: int, name: str) -> None:
    assert name_of_code(code) == name


# -- transports ---------------------------------------------------------------------------------------------------


def test_a_machine_without_a_tpm_is_named(tmp_path: Path) -> None:
    for transport in (TPMDevice(tmp_path / "tpmrm0"), TPMSocket(tmp_path / "tpm.sock")):
        with pytest.raises(ProviderAbsent, match="no TPM"):
            transport.transmit(b"x")


def test_a_character_device_carries_a_command_and_its_response(software_tpm: SoftwareTPM) -> None:
    """A terminal device in raw mode, bridged to the real TPM: one write, one read, opened for each command."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)

    def bridge() -> None:
        for _ in range(3):
            os.write(ours, software_tpm.transport().transmit(os.read(ours, 4096)))

    bridging = threading.Thread(target=bridge)
    bridging.start()
    values = TPM(TPMDevice(Path(os.ttyname(theirs)))).pcr_read(range(24))
    bridging.join()
    os.close(ours)
    os.close(theirs)
    assert values == TPM(software_tpm.transport()).pcr_read(range(24))


def test_a_file_is_no_tpm(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(ProviderBusy, match="ELOOP"):
        TPMDevice(tmp_path / "link").transmit(b"x")
    with pytest.raises(ResponseRefused):
        TPM(TPMDevice(Path("/dev/null"))).nv_size(INDEX)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", ProviderBusy),
        (b"\x80\x01\0\0", ProviderBusy),
        (b"\x80\x01\0\0\0\x09\0\0\0\0", ResponseRefused),
        (b"\x80\x01\x00\x10\0\0\0\0\0\0", ResponseRefused),
        (b"\x80\x01\0\0\0\x10\0\0\0\0\0", ProviderBusy),
        (None, ProviderBusy),
    ],
)
def test_a_socket_that_breaks_off_lies_or_is_silent_is_refused(
    tmp_path: Path, answer: bytes | None, expected: type[AffiantError]
) -> None:
    done = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "tpm.sock"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                if answer is None:
                    done.wait(5)
                else:
                    connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(expected):
            TPMSocket(tmp_path / "tpm.sock", silence_s=0.2).transmit(b"command")
        done.set()
        server.join()
