"""A gateway server that kills itself with SIGKILL at its N-th write: before it, amid it, or after it.

Counted are os.write, os.fdatasync and os.fsync (journal, settings, ready line), what is handed to clients, and
what is handed to upstreams. With ``lossy``, everything in the journal's files that no completed fdatasync covers
is dropped before the kill, as a disk may do when the power fails.

Run as a program this is a zygote: it imports the server once, then forks it for each job, because most of a
start is imports. A job is one JSON packet with three descriptors: the TD's, the settings', the ready pipe's.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.config.config import Settings, encode_settings
from affiant.gateway.process import server
from affiant.gateway.upstream import http1_connection


class Points:
    """Counts, and dies at one."""

    def __init__(self, kill_at: int, counter: Path | None, *, lossy: bool) -> None:
        self.count = 0
        self.kill_at = kill_at
        self.counter = counter
        self.lossy = lossy
        self.durable: dict[str, int] = {}
        self.dying = False

    def reached(self, before_death: Callable[[], object] | None = None) -> None:
        if self.dying:
            threading.Event().wait()
        self.count += 1
        if self.count == self.kill_at:
            if before_death is not None:
                before_death()
            self.die()

    def die(self) -> None:
        """Lose what no disk holds, and die. No thread passes a point meanwhile: a record that it made durable after the
        loss would be missing, although its request was answered."""
        self.dying = True
        if self.lossy:
            for path, size in dict(self.durable).items():
                os.truncate(path, size)
        os.kill(os.getpid(), signal.SIGKILL)

    def save(self) -> None:
        if self.counter is not None:
            self.counter.write_text(str(self.count))


def _segment(descriptor: int) -> str | None:
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
    return path if path.endswith(".seg") else None


def arm(points: Points) -> None:
    """Put a point before and after everything that counts."""
    write, sync, fsync = os.write, os.fdatasync, os.fsync

    def counted_write(descriptor: int, data: bytes) -> int:
        segment = _segment(descriptor)
        if segment is not None:
            points.durable.setdefault(segment, 0)
            half = bytes(data[: len(data) // 2])
            points.reached(lambda: write(descriptor, half))
        else:
            points.reached()
        written = write(descriptor, data)
        points.reached()
        return written

    def counted_sync(descriptor: int) -> None:
        points.reached()
        size = os.fstat(descriptor).st_size
        sync(descriptor)
        segment = _segment(descriptor)
        if segment is not None:
            points.durable[segment] = size
        points.reached()

    def counted_fsync(descriptor: int) -> None:
        points.reached()
        fsync(descriptor)

    to_client, to_upstream = RequestResponseCycle.send, http1_connection.Connection.write

    async def counted_send(self: RequestResponseCycle, message: dict) -> None:
        points.reached()
        await to_client(self, message)
        points.reached()

    def counted_upstream(self: http1_connection.Connection, data: bytes) -> None:
        points.reached()
        to_upstream(self, data)
        points.reached()

    os.write, os.fdatasync, os.fsync = counted_write, counted_sync, counted_fsync
    RequestResponseCycle.send = counted_send  # type: ignore[method-assign]
    http1_connection.Connection.write = counted_upstream  # type: ignore[method-assign]


def zygote(control: socket.socket) -> None:
    """Serve jobs until the other end closes."""
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, 65536, 3)
        if not packet:
            return
        job = json.loads(packet)
        child = os.fork()
        if child == 0:
            control.close()
            counter = job.get("counter")
            points = Points(job["kill_at"], Path(counter) if counter else None, lossy=job["lossy"])
            arm(points)
            td, settings, ready = descriptors
            code = server.main(["--td-fd", str(td), "--settings-fd", str(settings), "--ready-fd", str(ready)])
            points.save()
            os._exit(code)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(json.dumps({"pid": child}).encode())
        control.recv(16)  # the test is done with it; until then, even a dead child keeps its number
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        control.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())


@dataclass
class Zygote:
    """The test's side of it."""

    control: socket.socket

    @contextmanager
    def server(
        self,
        platform: PlatformClient,
        settings: Settings,
        *,
        kill_at: int,
        lossy: bool = False,
        counter: Path | None = None,
    ) -> Iterator[tuple[dict | None, Callable[[], int]]]:
        """A server, and how to end it; None instead of its ready line if it did not live that long."""
        td = platform.create_td(image=Image.GATEWAY, mrconfigid=settings.config.mrconfigid)
        document = os.memfd_create("settings")
        os.write(document, encode_settings(settings))
        os.lseek(document, 0, os.SEEK_SET)
        reading, writing = os.pipe()
        job = {"kill_at": kill_at, "lossy": lossy, "counter": str(counter) if counter else None}
        socket.send_fds(self.control, [json.dumps(job).encode()], [td, document, writing])
        for descriptor in (td, document, writing):
            os.close(descriptor)
        json.loads(self.control.recv(65536))
        with open(reading, "rb") as file:
            line = file.readline()
        ended: list[int] = []

        def end() -> int:
            if not ended:
                self.control.send(b"end")
                ended.append(json.loads(self.control.recv(65536))["status"])
            return ended[0]

        try:
            yield (json.loads(line) if line else None), end
        finally:
            end()


@contextmanager
def started_zygote() -> Iterator[Zygote]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    root = Path(__file__).resolve().parents[2]
    with theirs:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.killpoints", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=root,
        )
    ours.settimeout(60)
    with ours, child:
        yield Zygote(ours)
        ours.close()
        child.wait(30)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        zygote(given)
