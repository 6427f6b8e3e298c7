"""Commands that go on between calls: started once, then read and typed to by number, as the SDK's shell tool does.

A command has a terminal, or two pipes without input. Output that the SDK does not ask for slows the command; it
is not kept without a bound.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, cast

from agents.sandbox.errors import PtySessionNotFoundError
from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    process_id_to_prune_from_meta,
    resolve_pty_write_yield_time_ms,
)

from affiant.errors import AffiantError
from affiant.sandbox.api.sandbox import Exited, Output, Sandbox, Terminal
from affiant.sandbox.openai_agents.sdk_errors import not_run

__all__ = ["Terminals"]

_FIRST_WAIT_S: Final = 10.0
_NEXT_WAIT_S: Final = 0.25
_AT_ONCE: Final = 16 << 20
"""Bytes of a command that one call takes at most; then the command waits for the next call."""


@dataclass(eq=False, slots=True)
class _Command:
    """One command; its task ends when it has."""

    argv: Sequence[str]
    task: asyncio.Task[None] | None = None
    terminal: Terminal | None = None
    chunks: deque[bytes] = field(default_factory=deque)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int | None = None
    error: Exception | None = None
    used: float = field(default_factory=time.monotonic)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    allowance: int = _AT_ONCE

    async def add(self, data: bytes) -> None:
        """Keep what came, once a call has room for it."""
        while self.allowance <= 0:
            self.room.clear()
            await self.room.wait()
        self.allowance -= len(data)
        async with self.lock:
            self.chunks.append(data)
        self.came.set()

    def allow(self) -> None:
        """Begin a call."""
        self.allowance = _AT_ONCE
        self.room.set()


class Terminals:
    """The commands of one session that go on between calls."""

    def __init__(self) -> None:
        self._commands: dict[int, _Command] = {}
        self._starting = asyncio.Lock()

    async def start(
        self,
        sandbox: Sandbox,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        tty: bool,
        wait_s: float | None,
        max_tokens: int | None,
    ) -> PtyExecUpdate:
        """Start a command and return what it wrote within ``wait_s``; the oldest idle one makes room for it.

        Raises:
            ExecTransportError: it was rejected.
        """
        command, work = _Command(argv), _on_terminal if tty else _on_pipes
        async with self._starting:
            await self._make_room()
            number = allocate_pty_process_id(set(self._commands))
            command.task = asyncio.create_task(_run(command, work(command, sandbox, env, cwd)))
            self._commands[number] = command
        try:
            await command.begun.wait()
            wait_ms = clamp_pty_yield_time_ms(round(1000 * (_FIRST_WAIT_S if wait_s is None else wait_s)))
            return await self._collected(number, command, wait_ms, max_tokens)
        except asyncio.CancelledError:  # the caller never gets its number
            await self._end(number)
            raise

    async def type(
        self, number: int, text: str, *, wait_s: float | None, max_tokens: int | None
    ) -> PtyExecUpdate:
        """Type to command ``number`` and return what it wrote since, both within ``wait_s``.

        Raises:
            PtySessionNotFoundError: there is none. RuntimeError: it has no terminal.
            ExecTransportError: it did not read what was typed.
        """
        command = self._commands.get(number)
        if command is None:
            raise PtySessionNotFoundError(session_id=number)
        wait_ms = resolve_pty_write_yield_time_ms(
            yield_time_ms=round(1000 * (_NEXT_WAIT_S if wait_s is None else wait_s)), input_empty=not text
        )
        due = time.monotonic() + wait_ms / 1000
        if text and not command.ended.is_set():
            if command.terminal is None:
                raise RuntimeError("stdin is not available for this process")
            command.allow()
            try:
                await command.terminal.write(text.encode("utf-8"), timeout=wait_ms / 1000)
            except AffiantError as error:
                if error.code != "session.terminal_ended":
                    raise not_run(command.argv, error, what="typing failed") from error
        left_ms = max(round(1000 * (due - time.monotonic())), 0)
        update = await self._collected(number, command, left_ms, max_tokens)
        command.used = time.monotonic()
        return update

    async def end_all(self) -> None:
        """End every command."""
        for number in tuple(self._commands):
            await self._end(number)

    async def _collected(
        self, number: int, command: _Command, wait_ms: int, max_tokens: int | None
    ) -> PtyExecUpdate:
        command.allow()
        output, tokens, ended = await collect_pty_output(
            output_chunks=command.chunks,
            output_lock=command.lock,
            output_notify=command.came,
            is_done=command.ended.is_set,
            yield_time_ms=wait_ms,
            max_output_tokens=max_tokens,
        )
        if not ended:
            return PtyExecUpdate(number, output, None, tokens)
        await self._end(number)
        if command.error is not None:
            raise not_run(command.argv, command.error) from command.error
        return PtyExecUpdate(None, output, command.exit_code, tokens)

    async def _make_room(self) -> None:
        """End the oldest idle command if there are as many as there may be; under the lock of starts."""
        if len(self._commands) < PTY_PROCESSES_MAX:
            return
        number = process_id_to_prune_from_meta(
            [(number, each.used, each.ended.is_set()) for number, each in self._commands.items()]
        )
        if number is not None:
            await self._end(number)

    async def _end(self, number: int) -> None:
        command = self._commands.pop(number, None)
        if command is not None and command.task is not None:
            command.task.cancel()
            await asyncio.gather(command.task, return_exceptions=True)


async def _run(command: _Command, work: Coroutine[None, None, int]) -> None:
    try:
        command.exit_code = await work
    except Exception as error:  # noqa: BLE001 - raised by the call that looks for the command's end
        command.error = error
    finally:
        for event in (command.begun, command.ended, command.came):
            event.set()


async def _on_terminal(command: _Command, sandbox: Sandbox, env: Mapping[str, str], cwd: str) -> int:
    async with sandbox.pty(command.argv, env=env, cwd=cwd) as terminal:
        command.terminal = terminal
        command.begun.set()
        while data := await terminal.read():
            await command.add(data)
        result = await terminal.wait()
    if result.limit is not None:
        raise result.limit
    return result.exit_code


async def _on_pipes(command: _Command, sandbox: Sandbox, env: Mapping[str, str], cwd: str) -> int:
    command.begun.set()
    events = cast("AsyncGenerator[Output | Exited, None]", sandbox.stream(command.argv, env=env, cwd=cwd))
    async with aclosing(events):
        async for event in events:
            match event:
                case Exited(result):
                    return result.exit_code
                case Output(data=data):
                    await command.add(data)
    raise AssertionError("a stream ends with the command's end")
