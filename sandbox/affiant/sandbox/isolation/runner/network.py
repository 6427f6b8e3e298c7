"""The only network a sandbox has: two listening sockets of the proxy's, and nothing behind them.

One is the proxy as clients are told of it. The other has the address that the supervisor's own names have in the
sandbox, for clients that know no proxy; the proxy serves nothing but these names there.

For gVisor two fresh network namespaces are joined by a veth pair. The *near* one is the sandbox's. The *far*
one holds the other end, the listening sockets, and nothing else: no route, no other interface, no
process. Neither is the machine's; neither has a name, so both vanish with the last process or socket in them.
As everything is private to the session, the addresses are constants. For bubblewrap the sandbox's own loopback
carries the listening sockets.

This file talks to the kernel, and to it by the ``ip`` program (iproute2).
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.errors import StateError
from affiant.sandbox.isolation.plan.errors import SandboxFailed
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.linux import loopback_up

__all__ = [
    "NEAR",
    "OWN_HOSTS_AT",
    "PROXY_PORT",
    "Endpoint",
    "Listeners",
    "begin_connection",
    "join_namespaces",
    "listen_on_loopback",
]

PROXY_PORT: Final = 3128
_OWN_HOSTS_PORT: Final = 80
_FAR: Final = "10.189.0.1"
NEAR: Final = "10.189.0.2"
"""The agent's own address under gVisor."""
_PREFIX: Final = 29
"""One private network of six addresses (RFC 1918), the same in every session: no session sees another's."""
OWN_HOSTS_AT: Final[Mapping[BackendName, str]] = {
    BackendName.GVISOR: "10.189.0.4",
    BackendName.BUBBLEWRAP: "127.0.0.2",
}
"""The address of the supervisor's own names in the sandbox."""

_BACKLOG: Final = 128


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the sandbox finds its proxy."""

    host: str
    port: int = PROXY_PORT

    @property
    def url(self) -> str:
        """What HTTP_PROXY and its kin are set to."""
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    """The proxy's sockets: for clients that are told of the proxy, and for those that ask its own names."""

    proxy: socket.socket
    own_hosts: socket.socket

    @classmethod
    def at(cls, address: str, own_hosts: str) -> Listeners:
        """Listen in the present network namespace."""
        proxy = _listener(address, PROXY_PORT)
        try:
            return cls(proxy, _listener(own_hosts, _OWN_HOSTS_PORT))
        except BaseException:
            proxy.close()
            raise


def listen_on_loopback() -> tuple[Endpoint, Listeners]:
    """Open the proxy's sockets on the loopback interface of the present (fresh) network namespace."""
    loopback_up()
    return Endpoint("127.0.0.1"), Listeners.at("127.0.0.1", OWN_HOSTS_AT[BackendName.BUBBLEWRAP])


def join_namespaces(near: int, *, enter_near: Callable[[], None]) -> tuple[Endpoint, Listeners]:
    """Join the present, fresh network namespace (the far one) with the near one; open the proxy's sockets here.

    Args:
        near: the process whose network namespace is the near one, as ``ip`` will see its number.
        enter_near: run in a child to enter the near namespace.

    Raises:
        SandboxFailed: the kernel or ``ip`` refused.
    """
    own_hosts = OWN_HOSTS_AT[BackendName.GVISOR]
    _ip(f"link add far type veth peer name eth0 netns {near}", *_addressed("far", _FAR, own_hosts))
    _ip("link set dev lo up", *_addressed("eth0", NEAR), preexec=enter_near)
    _ignore_echo()
    return Endpoint(_FAR), Listeners.at(_FAR, own_hosts)


def begin_connection(address: str, port: int) -> socket.socket:
    """A socket on its way to a server of the agent's, from the network namespace that this process is in.

    The receiver waits until the socket is connected: this process waits for nothing of the agent's.

    Raises:
        ``ports.refused``: nothing listens there.
    """
    connection = socket.socket(
        socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    )
    try:
        connection.connect((address, port))
    except BlockingIOError:
        return connection
    except OSError as error:
        connection.close()
        raise StateError(
            "no server of the agent's listens on the port", found=error.strerror, code="ports.refused"
        ) from error
    return connection


def _addressed(name: str, *addresses: str) -> tuple[str, ...]:
    """``addrgenmode none``: without it the kernel adds an IPv6 link-local address by itself."""
    return (
        f"link set dev {name} addrgenmode none",
        *(f"address add {address}/{_PREFIX} dev {name}" for address in addresses),
        f"link set dev {name} up",
    )


def _ip(*commands: str, preexec: Callable[[], None] | None = None) -> None:
    batch = "".join(f"{command}\n" for command in commands).encode()
    done = subprocess.run(
        [_program(), "-batch", "-"], input=batch, capture_output=True, check=False, env={}, preexec_fn=preexec
    )
    if done.returncode != 0:
        raise SandboxFailed("the sandbox's network could not be made", found=_excerpt(done.stderr))


def _program() -> str:
    for place in ("/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"):
        if os.access(place, os.X_OK):
            return place
    raise SandboxFailed("the program ip is not here", hint="Install iproute2.")


def _excerpt(output: bytes) -> str:
    return ascii(output[:200].decode("utf-8", "replace").strip())


def _ignore_echo() -> None:
    """The far end does not answer ping either; /proc/sys/net shows the reader's own network namespace."""
    try:
        Path("/proc/sys/net/ipv4/icmp_echo_ignore_all").write_text("1\n")
    except OSError as error:
        raise SandboxFailed(
            "the far end of the network cannot be made silent", found=error.strerror
        ) from error


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind((address, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - takes no keyword
    except BaseException:
        listener.close()
        raise
    return listener
