"""The broker's process: ``python -I -m affiant.secrets.broker.process --control-fd N [--uid U --gid G]``.

Its life: give up privileges and surroundings; wait for the configuration; resolve; answer; then serve streams
until the control channel closes, and end. It ends by itself when its parent dies, whatever the parent did last.
It writes nothing anywhere: not to a log, not to a file; on standard error only the kind of an error that ends it.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until all is loaded: it makes no garbage, and looking for some took a seventh of the start

import argparse
import asyncio
import concurrent.futures.thread  # noqa: F401 - loaded now: after the change of user nothing can be imported
import encodings.ascii
import encodings.idna
import encodings.latin_1
import encodings.utf_16_be
import encodings.utf_16_le
import encodings.utf_32_be
import encodings.utf_32_le  # noqa: F401 - as above
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final

from affiant.errors import AffiantError, ConfigurationError, MalformedError
from affiant.secrets.broker.client.members import as_list, error_members
from affiant.secrets.broker.client.messages import (
    BrokerPart,
    BrokerStatus,
    Configuration,
    KeptGrant,
    Resolution,
)
from affiant.secrets.broker.client.protocol import ControlChannel
from affiant.secrets.broker.hardening import drop_privileges, forget_surroundings, harden
from affiant.secrets.broker.session import Held, open_session
from affiant.secrets.broker.stream import serve_stream
from affiant.secrets.broker.tokens.tokens import Instants
from affiant.secrets.names.ref import resolution_inside_broker

__all__ = ["main", "serve_control"]

_INSTANTS: Final = Instants(time.monotonic, time.time, os.urandom)
_MAX_STREAMS: Final = 1024
_EXIT_FAILED: Final = 70
_PARTS: Final[Mapping[BrokerPart, str]] = {
    BrokerPart.VAULT: "affiant.secrets.store.vault",
    BrokerPart.LOCAL_STORE: "affiant.secrets.broker.local_source",
    BrokerPart.ASSERTIONS: "affiant.secrets.broker.tokens.signing",
}
"""What only some sessions use: loaded before the change of user, where the supervisor asks for it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the broker until its control channel closes. Returns the exit status."""
    gc.enable()
    options = _parser().parse_args(arguments)
    sys.excepthook = _show_kind_only
    for part in options.load:
        importlib.import_module(_PARTS[part])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to answer
    forget_surroundings(keep=options.control_fd)
    if options.uid is not None:
        drop_privileges(uid=options.uid, gid=options.gid)
    status = harden()
    with socket.socket(fileno=options.control_fd) as control:
        if control.family != socket.AF_UNIX:
            raise ConfigurationError(
                "the control descriptor is not a local socket", code="broker.configuration"
            )
        return asyncio.run(_run(control, status))


async def _run(control: socket.socket, status: BrokerStatus) -> int:
    asyncio.get_running_loop().set_exception_handler(_ignore_text)
    return await serve_control(control, status)


async def serve_control(
    control: socket.socket, status: BrokerStatus, *, instants: Instants = _INSTANTS
) -> int:
    """Be configured, and serve streams until the control channel closes. Returns the exit status."""
    channel = ControlChannel(control)
    try:
        message = await channel.receive()
        if message is None:
            return 0
        try:
            configuration = Configuration.from_json(message.members)
            opened = await asyncio.to_thread(
                open_session, configuration, message.descriptors, instants=instants
            )
        except AffiantError as error:
            await channel.send({"refused": error_members(error)})
            return _EXIT_FAILED
        resolution = Resolution(opened.versions, opened.refused, status)
        await channel.send({"configured": resolution.to_json()})
        held = Held(opened.session)
        with resolution_inside_broker(held.value):
            await _serve(channel, held)
        return 0
    finally:
        channel.close()


async def _serve(channel: ControlChannel, held: Held) -> None:
    """Until the control channel closes; then every exchange under way is cut."""
    streams: set[asyncio.Task[None]] = set()
    try:
        while (message := await channel.receive()) is not None:
            match message.members:
                case {"op": "open", **rest} if not rest and len(message.descriptors) == 1:
                    if len(streams) >= _MAX_STREAMS:
                        _close_all(message.descriptors)
                        continue
                    task = asyncio.create_task(_serve_descriptor(message.descriptors[0], held))
                    streams.add(task)
                    task.add_done_callback(streams.discard)
                case {"op": "narrow", "grants": grants, **rest} if not (rest or message.descriptors):
                    await channel.send(_restrict(held, grants))
                case _:
                    _close_all(message.descriptors)
                    raise MalformedError("a message that is not known", code="broker.protocol")
    finally:
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


def _restrict(held: Held, grants: object) -> Mapping[str, object]:
    """Hold less from now on; the answer. Refused, everything is as it was."""
    try:
        held.restrict([KeptGrant.from_json(grant) for grant in as_list(grants)])
    except AffiantError as error:
        return {"refused": error_members(error)}
    return {"narrowed": sorted(held.session.names)}


async def _serve_descriptor(descriptor: int, held: Held) -> None:
    stream = socket.socket(fileno=descriptor)
    try:
        reader, writer = await asyncio.open_unix_connection(sock=stream)
    except (OSError, ValueError):
        stream.close()  # not a connected stream socket
        return
    await serve_stream(reader, writer, held)


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _show_kind_only(
    kind: type[BaseException], error: BaseException, _traceback: TracebackType | None
) -> None:
    """No text, no traceback: either may hold a value."""
    code = f" [{error.code}]" if isinstance(error, AffiantError) else ""
    sys.stderr.write(f"affiant broker: ended by {kind.__name__}{code}\n")


def _ignore_text(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """What asyncio would log; its kind alone."""
    error = context.get("exception")
    if error is not None:
        sys.stderr.write(f"affiant broker: {type(error).__name__}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="affiant.secrets.broker.process", allow_abbrev=False)
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("--load", type=BrokerPart, action="append", default=[])
    return parser


if __name__ == "__main__":
    sys.exit(main())
