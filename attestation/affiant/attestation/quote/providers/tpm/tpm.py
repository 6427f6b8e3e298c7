"""Runs the few TPM 2.0 commands that Azure's evidence needs, and no others.

Source: TPM 2.0 Library, revision 1.59, part 3 (commands) and part 2 (structures)::

    TPM2_NV_ReadPublic    part 3, 31.6      TPM2_NV_Read     31.13     TPM2_PCR_Read   22.4
    TPM2_NV_DefineSpace   part 3, 31.3      TPM2_NV_Write    31.7      TPM2_Quote      18.4
    TPM2_ReadPublic       part 3, 12.4

Indices are read and written as the owner, whose authorisation is the empty password on such machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers

from affiant.attestation.quote.providers.base.errors import ResponseRefused, SettingsInvalid
from affiant.attestation.quote.providers.tpm.tpm_device import TPMTransport
from affiant.attestation.quote.providers.tpm.tpm_exchange import Command, ask, response_fields
from affiant.attestation.quote.providers.tpm.tpm_fields import TPMFields, sized

__all__ = ["MAX_NV_INDEX", "TPM", "SignedAttest"]

MAX_NV_INDEX: Final = 16 * 1024
_NV_CHUNK: Final = 512
"""What every TPM can move at once; larger buffers are optional."""
_OWNER: Final = 0x40000001
_NULL: Final = 0x0010
_RSA: Final = 0x0001
_SHA256: Final = 0x000B
_OWNER_WRITE_AND_READ: Final = 1 << 1 | 1 << 17
"""TPMA_NV_OWNERWRITE, TPMA_NV_OWNERREAD."""
_PCRS: Final = range(24)
_DEFAULT_EXPONENT: Final = 65537


@dataclass(frozen=True, slots=True)
class SignedAttest:
    """TPMS_ATTEST and TPMT_SIGNATURE, as the TPM gave them. Nothing of it is verified."""

    message: bytes = field(repr=False)
    signature: bytes = field(repr=False)


class TPM:
    """One TPM 2.0.

    Args:
        transport: carries commands to it.
    """

    def __init__(self, transport: TPMTransport) -> None:
        self._transport = transport

    def nv_size(self, index: int) -> int:
        """Bytes that the NV index holds (TPM2_NV_ReadPublic).

        Raises:
            ProviderAbsent: there is no such index. TPMRefused, ProviderDenied, ProviderBusy: as the TPM answers.
        """
        answer = self._ask(Command.NV_READ_PUBLIC, (index,))
        public = response_fields(answer.sized())
        answer.sized()  # the index's name
        answer.end()
        found = public.number(4)
        public.take(2 + 4)  # name algorithm, attributes
        public.sized()  # policy
        size = public.number(2)
        public.end()
        if found != index or size > MAX_NV_INDEX:
            raise ResponseRefused(
                "the TPM described another NV index",
                expected=f"0x{index:08x}, at most {MAX_NV_INDEX} bytes",
                found=f"0x{found:08x}, {size} bytes",
            )
        return size

    def nv_read(self, index: int) -> bytes:
        """Everything in the NV index, in pieces, as the owner (TPM2_NV_Read).

        Raises:
            As :meth:`nv_size`.
        """
        size, content = self.nv_size(index), bytearray()
        while len(content) < size:
            wanted = min(_NV_CHUNK, size - len(content))
            parameters = wanted.to_bytes(2, "big") + len(content).to_bytes(2, "big")
            answer = self._ask(Command.NV_READ, (_OWNER, index), parameters, authorised=True)
            piece = answer.sized()
            answer.end()
            if len(piece) != wanted:
                raise ResponseRefused(
                    "the TPM gave another piece than was asked for",
                    expected=f"{wanted} bytes",
                    found=f"{len(piece)} bytes",
                )
            content += piece
        return bytes(content)

    def nv_write(self, index: int, data: bytes) -> None:
        """Write ``data`` from the index's beginning, as the owner (TPM2_NV_Write).

        Raises:
            As :meth:`nv_size`.
        """
        for at in range(0, len(data), _NV_CHUNK):
            parameters = sized(data[at : at + _NV_CHUNK]) + at.to_bytes(2, "big")
            self._ask(Command.NV_WRITE, (_OWNER, index), parameters, authorised=True).end()

    def nv_define(self, index: int, size: int) -> None:
        """Make an index that the owner may read and write (TPM2_NV_DefineSpace).

        Raises:
            TPMRefused: the TPM has it already (TPM_RC_NV_DEFINED), or no room. As :meth:`nv_size`.
        """
        public = b"".join(
            (
                index.to_bytes(4, "big"),
                _SHA256.to_bytes(2, "big"),
                _OWNER_WRITE_AND_READ.to_bytes(4, "big"),
                sized(b""),
                size.to_bytes(2, "big"),
            )
        )
        self._ask(Command.NV_DEFINE_SPACE, (_OWNER,), sized(b"") + sized(public), authorised=True).end()

    def read_public(self, handle: int) -> RSAPublicKey:
        """The RSA key under a persistent handle (TPM2_ReadPublic; TPMT_PUBLIC is in part 2, 12.2.4).

        Raises:
            As :meth:`nv_size`. ResponseRefused: a key of another type.
        """
        answer = self._ask(Command.READ_PUBLIC, (handle,))
        public = response_fields(answer.sized())
        answer.sized()  # its name
        answer.sized()  # its qualified name
        answer.end()
        if public.number(2) != _RSA:
            raise ResponseRefused("the TPM's key is of another type", where=f"0x{handle:08x}", expected="RSA")
        public.take(2 + 4)  # name algorithm, attributes
        public.sized()  # policy
        if public.number(2) != _NULL:
            public.take(2 + 2)  # a storage key's cipher: bits, mode
        if public.number(2) != _NULL:
            public.take(2)  # the signature scheme's hash
        public.take(2)  # bits: the modulus has them
        exponent = public.number(4) or _DEFAULT_EXPONENT
        modulus = int.from_bytes(public.sized(), "big")
        public.end()
        try:
            return RSAPublicNumbers(exponent, modulus).public_key()
        except ValueError as error:
            raise ResponseRefused("the TPM's key is no RSA key", where=f"0x{handle:08x}") from error

    def quote(self, handle: int, nonce: bytes, pcrs: Iterable[int]) -> SignedAttest:
        """A quote by the key under ``handle`` over ``nonce`` and the SHA-256 bank (TPM2_Quote; the key's own scheme).

        Args:
            nonce: at most 64 bytes. pcrs: numbers, 0 to 23.

        Raises:
            As :meth:`nv_size`. SettingsInvalid: no such PCR, or none.
        """
        parameters = sized(nonce) + _NULL.to_bytes(2, "big") + _selection(pcrs)
        answer = self._ask(Command.QUOTE, (handle,), parameters, authorised=True)
        return SignedAttest(message=answer.sized(), signature=answer.rest())

    def pcr_read(self, pcrs: Iterable[int]) -> Mapping[int, bytes]:
        """The values of PCRs in the SHA-256 bank, 32 bytes each (TPM2_PCR_Read gives eight at a time).

        Raises:
            As :meth:`quote`. ResponseRefused: the TPM has no such bank.
        """
        wanted, values = sorted(set(pcrs)), dict[int, bytes]()
        while missing := [number for number in wanted if number not in values]:
            answer = self._ask(Command.PCR_READ, (), _selection(missing))
            answer.take(4)  # how often PCRs changed
            given = self._given(answer)
            digests = [answer.sized() for _ in range(answer.number(4))] if given else []
            answer.end()
            if not given or not set(given) <= set(missing) or [len(d) for d in digests] != [32] * len(given):
                raise ResponseRefused(
                    "the TPM gave other PCRs than were asked for", expected="its SHA-256 bank"
                )
            values |= dict(zip(given, digests, strict=True))
        return values

    def _given(self, answer: TPMFields) -> list[int]:
        """The PCRs of a response's one selection, ascending."""
        if answer.number(4) != 1 or answer.number(2) != _SHA256:
            raise ResponseRefused("the TPM gave PCRs of another bank", expected="SHA-256")
        bits = int.from_bytes(answer.take(answer.number(1)), "little")
        return [number for number in range(bits.bit_length()) if bits >> number & 1]

    def _ask(
        self, command: Command, handles: Iterable[int], parameters: bytes = b"", *, authorised: bool = False
    ) -> TPMFields:
        return ask(self._transport, command, handles, parameters, authorised=authorised)


def _selection(pcrs: Iterable[int]) -> bytes:
    """TPML_PCR_SELECTION of one bank (part 2, 10.9.7)."""
    numbers = set(pcrs)
    if not numbers or not numbers <= set(_PCRS):
        raise SettingsInvalid("no such PCR, or none", expected="0 to 23", found=sorted(numbers))
    bits = sum(1 << number for number in numbers).to_bytes(3, "little")
    return (1).to_bytes(4, "big") + _SHA256.to_bytes(2, "big") + b"\x03" + bits
