"""Sends one command to a TPM 2.0 and reads its response: framing, the empty password, return codes as errors.

Source: TPM 2.0 Library, revision 1.59, part 1, 18 (command and response) and 19.4 (password authorisation)::

    tag (2)  size (4)  command code (4)  handles (4 each)  [size (4), authorisations]  parameters
    tag (2)  size (4)  return code (4)   [size (4)]        parameters                  [authorisations]

What is in brackets is there with tag 8002 alone. Every response is read to its exact end.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
    TPMRefused,
)
from affiant.attestation.quote.providers.tpm.tpm_codes import (
    is_about_handle,
    is_passing,
    is_unauthorised,
    name_of_code,
)
from affiant.attestation.quote.providers.tpm.tpm_device import HEADER_SIZE, TPMTransport
from affiant.attestation.quote.providers.tpm.tpm_fields import TPMFields
from affiant.errors import AffiantError

__all__ = ["Command", "ask", "response_fields"]

_NO_SESSIONS: Final = 0x8001
_SESSIONS: Final = 0x8002
_EMPTY_PASSWORD: Final = bytes.fromhex("40000009 0000 00 0000")
"""TPM_RS_PW, no nonce, no attributes, nothing as the password."""
_ATTEMPTS: Final = 3


class Command(Enum):
    """A command: its code (part 2, 6.5.2), and its name for people."""

    NV_DEFINE_SPACE = (0x12A, "TPM2_NV_DefineSpace")
    NV_WRITE = (0x137, "TPM2_NV_Write")
    NV_READ = (0x14E, "TPM2_NV_Read")
    QUOTE = (0x158, "TPM2_Quote")
    NV_READ_PUBLIC = (0x169, "TPM2_NV_ReadPublic")
    READ_PUBLIC = (0x173, "TPM2_ReadPublic")
    PCR_READ = (0x17E, "TPM2_PCR_Read")


def ask(
    transport: TPMTransport,
    command: Command,
    handles: Iterable[int],
    parameters: bytes = b"",
    *,
    authorised: bool = False,
) -> TPMFields:
    """The parameters of the response. A TPM that asks to try again is asked three times.

    Args:
        authorised: whether the command's first handle needs an authorisation, which is the empty password.

    Raises:
        ProviderAbsent: nothing is under that handle or index. ProviderDenied: it wants another authorisation.
        ProviderBusy: it asks to wait. TPMRefused: every other return code. ResponseRefused: no response.
    """
    code, name = command.value
    tag = _SESSIONS if authorised else _NO_SESSIONS
    packet = _packet(tag, code, handles, parameters)
    returned = 0
    for _ in range(_ATTEMPTS):
        answer, returned = _response(transport.transmit(packet), tag)
        if returned == 0:
            return _parameters(answer) if authorised else answer
        if not is_passing(returned):
            break
    raise _refusal(name, returned)


def response_fields(data: bytes) -> TPMFields:
    """A part of a response."""
    return TPMFields(data, name="the TPM's response", refusal=ResponseRefused)


def _packet(tag: int, code: int, handles: Iterable[int], parameters: bytes) -> bytes:
    body = b"".join(handle.to_bytes(4, "big") for handle in handles)
    if tag == _SESSIONS:
        body += len(_EMPTY_PASSWORD).to_bytes(4, "big") + _EMPTY_PASSWORD
    body += parameters
    size = HEADER_SIZE + len(body)
    return tag.to_bytes(2, "big") + size.to_bytes(4, "big") + code.to_bytes(4, "big") + body


def _response(data: bytes, tag: int) -> tuple[TPMFields, int]:
    """What follows the header, and the return code. An error never has authorisations."""
    answer = response_fields(data)
    found, size, returned = answer.number(2), answer.number(4), answer.number(4)
    if size != len(data) or found != (_NO_SESSIONS if returned else tag):
        raise ResponseRefused(
            "the TPM's response is of another form",
            expected=f"tag {tag:04x}, {len(data)} bytes",
            found=f"tag {found:04x}, {size} bytes",
        )
    return answer, returned


def _parameters(answer: TPMFields) -> TPMFields:
    """The parameters before the authorisation's end: nonce, attributes, and an empty acknowledgement."""
    inner = response_fields(answer.take(answer.number(4)))
    answer.sized()
    answer.take(1)
    answer.sized()
    answer.end()
    return inner


def _refusal(where: str, returned: int) -> AffiantError:
    found = name_of_code(returned)
    if is_passing(returned):
        return ProviderBusy("the TPM is busy", where=where, found=found)
    if is_about_handle(returned):
        return ProviderAbsent("the TPM has nothing under this handle or index", where=where, found=found)
    if is_unauthorised(returned):
        return ProviderDenied(
            "the TPM wants another authorisation than the empty one", where=where, found=found
        )
    return TPMRefused("the TPM refuses the command", where=where, found=found, return_code=returned)
