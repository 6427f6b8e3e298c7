"""A static program that makes a list of system calls, one after the other, and nothing else. Pure.

The first process of a sandbox and the last step before each command must not depend on what the root file system
holds: no interpreter, no linker, no library. So the runner writes the program itself: an ELF executable of one
segment (System V ABI, "Object Files"; type ``ET_EXEC``, no sections), with a few lines of machine code and a table of
calls.

The code takes the table's entries in turn. An entry is eleven 64-bit words: the call's number, its six arguments, the
next entry after an error, after zero and after a positive result, and where the result is stored. The program's own
texts and structures lie behind the table; an argument names them by address.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from affiant.errors import ConfigurationError

__all__ = ["CallProgram", "Place", "program_machines"]

_BASE: Final = 0x10000000
"""Where the program is loaded: above the kernel's lowest mapping (vm.mmap_min_addr), in what 32 bits can name."""

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ENTRY: Final = struct.Struct("<11Q")
_CODE_AT: Final = _HEADER.size + _SEGMENT.size

_CODE: Final = {
    "x86_64": (
        62,  # EM_X86_64
        bytes.fromhex(
            "bb00000000"  #         mov ebx, table      (the address is filled in)
            "488b03"  #       next: mov rax, [rbx]      the call's number
            "488b7b08"  #           mov rdi, [rbx+8]    its arguments
            "488b7310"  #           mov rsi, [rbx+16]
            "488b5318"  #           mov rdx, [rbx+24]
            "4c8b5320"  #           mov r10, [rbx+32]
            "4c8b4328"  #           mov r8, [rbx+40]
            "4c8b4b30"  #           mov r9, [rbx+48]
            "0f05"  #               syscall
            "488b4b50"  #           mov rcx, [rbx+80]   where the result is stored
            "488901"  #             mov [rcx], rax
            "4885c0"  #             test rax, rax
            "780e"  #               js error
            "7406"  #               jz zero
            "488b5b48"  #           mov rbx, [rbx+72]
            "ebcf"  #               jmp next
            "488b5b40"  #     zero: mov rbx, [rbx+64]
            "ebc9"  #               jmp next
            "488b5b38"  #    error: mov rbx, [rbx+56]
            "ebc3"  #               jmp next
        ),
    )
}


def program_machines() -> Sequence[str]:
    """The machines (``uname -m``) that programs can be written for."""
    return tuple(_CODE)


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of the program: their offset behind its table."""

    offset: int

    def after(self, count: int) -> Place:
        """The place ``count`` bytes further on."""
        return Place(self.offset + count)


Argument = int | Place


@dataclass(frozen=True, slots=True)
class _Call:
    number: int
    arguments: tuple[Argument, ...]
    error: str | None
    zero: str | None
    positive: str | None
    result: Place | None


class CallProgram:
    """Collects calls and what they refer to; :meth:`elf` is the executable.

    Raises:
        ``isolation.unavailable``: no machine code is known for ``machine``.
    """

    def __init__(self, machine: str) -> None:
        if machine not in _CODE:
            raise ConfigurationError(
                "no static program for this kind of machine",
                expected=" or ".join(_CODE),
                found=machine,
                code="isolation.unavailable",
            )
        self._machine, self._code = _CODE[machine]
        self._calls: list[_Call] = []
        self._labels: dict[str, int] = {}
        self._data = bytearray(8)
        self._pointers: list[tuple[int, Place]] = []

    def call(
        self,
        number: int,
        *arguments: Argument,
        error: str | None = None,
        zero: str | None = None,
        positive: str | None = None,
        result: Place | None = None,
    ) -> None:
        """Make system call ``number``; go on at the label for its result, else with the next call."""
        self._calls.append(_Call(number, arguments, error, zero, positive, result))

    def label(self, name: str) -> None:
        """Name the next call."""
        self._labels[name] = len(self._calls)

    def data(self, content: bytes, *, align: int = 8) -> Place:
        """Keep ``content`` in the program, where calls may write, too."""
        self._data += b"\0" * (-len(self._data) % align)
        place = Place(len(self._data))
        self._data += content
        return place

    def text(self, text: str) -> Place:
        """Keep a C string."""
        return self.data(text.encode() + b"\0", align=1)

    def pointers(self, places: Sequence[Place]) -> Place:
        """Keep addresses and a null after them, as execve(2) takes arguments."""
        array = self.data(bytes(8 * (len(places) + 1)))
        for number, place in enumerate(places):
            self._pointers.append((array.offset + 8 * number, place))
        return array

    def structure(self, head: bytes, pointer: Place) -> Place:
        """Keep ``head`` with the address of ``pointer`` after it."""
        place = self.data(head + bytes(8))
        self._pointers.append((place.offset + len(head), pointer))
        return place

    def elf(self) -> bytes:
        """The executable's bytes."""
        table = _CODE_AT + len(self._code) + (-(_CODE_AT + len(self._code)) % 16)
        data = table + _ENTRY.size * len(self._calls)

        def address(place: Argument) -> int:
            return place & (1 << 64) - 1 if isinstance(place, int) else _BASE + data + place.offset

        def entry(label: str | None, following: int) -> int:
            index = following if label is None else self._labels[label]
            return _BASE + table + _ENTRY.size * index

        content = bytearray(self._data)
        for offset, place in self._pointers:
            struct.pack_into("<Q", content, offset, address(place))
        rows = b"".join(
            _ENTRY.pack(
                call.number,
                *(address(argument) for argument in call.arguments),
                *(0,) * (6 - len(call.arguments)),
                *(entry(label, index + 1) for label in (call.error, call.zero, call.positive)),
                address(Place(0) if call.result is None else call.result),
            )
            for index, call in enumerate(self._calls)
        )
        code = self._code[:1] + struct.pack("<I", _BASE + table) + self._code[5:]
        size = data + len(content)
        head = self._head(size) + code
        return head + bytes(table - len(head)) + rows + bytes(content)

    def _head(self, size: int) -> bytes:
        """ELF header and the one segment: readable, writable, executable."""
        identity = b"\x7fELF\x02\x01\x01"
        header = _HEADER.pack(
            identity, 2, self._machine, 1, _BASE + _CODE_AT, _HEADER.size, 0, 0, 64, 56, 1, 0, 0, 0
        )
        return header + _SEGMENT.pack(1, 7, 0, _BASE, _BASE, size, size, 4096)
