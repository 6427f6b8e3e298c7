"""The gateway's decision log, begun anew while it serves: the launcher makes the files, the server appends to them.

The server has no way to any folder. So its launcher looks once a second whether the log has grown or was moved, begins
the next file with its own rights, and passes the descriptor over a pair of sockets; the server appends to it from its
next line on, and says so. Until then lines go to the file before. If no file can be begun the log grows on, to its
bound, and from there nothing is decided.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path
from typing import Final

from affiant.errors import AffiantError
from affiant.gateway.process.decision_follower import AGAIN, MESSAGE_SIZE, TAKEN
from affiant.policy.decision_log.file import DecisionsUnavailable
from affiant.policy.decision_log.rotation import RotatingLog, Rotation

__all__ = ["DecisionHandover"]

_LOOK_S: Final = 1.0
_NEXT: Final = b"next"


class DecisionHandover:
    """The launcher's half: opens the log, and keeps it in files of bounded size. Closed with the gateway."""

    def __init__(self, path: Path, rotation: Rotation, *, look_s: float = _LOOK_S) -> None:
        """Open the log.

        Raises:
            DecisionFileRefused: it is no log of this user's alone, or cannot be opened.
        """
        self._log = RotatingLog(path, rotation)
        self._look_s = look_s
        self._link, self._servers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, name="decision log", daemon=True)

    @property
    def descriptors(self) -> tuple[int, int]:
        """For the server: the log's, and that of the sockets' other end."""
        return self._log.descriptor, self._servers.fileno()

    def served(self) -> None:
        """The server has its descriptors: look after the log from now on."""
        self._servers.close()
        self._looking.start()

    def close(self) -> None:
        """Look no more, and close everything."""
        self._ended.set()
        self._servers.close()
        if self._looking.is_alive():
            self._link.shutdown(socket.SHUT_RDWR)
            self._looking.join()
        self._link.close()
        self._log.close()

    def _look(self) -> None:
        reported = ""
        while not self._ended.wait(self._look_s):
            try:
                if self._log.due():
                    if not self._begin():
                        return
                    reported = ""
            except (AffiantError, OSError) as error:
                if str(error) != reported:  # not once a second
                    sys.stderr.write(f"affiant gateway: the decision log was not begun anew: {error}\n")
                reported = str(error)

    def _begin(self) -> bool:
        """Begin the next file; False: the server has ended, or its log has failed and takes nothing any more."""
        descriptor = self._log.begin()
        try:
            socket.send_fds(self._link, [_NEXT], [descriptor])
            answer = self._link.recv(MESSAGE_SIZE)
        except (BrokenPipeError, ConnectionResetError):  # the server has ended
            answer = b""
        if answer == TAKEN:
            self._log.follow(descriptor)
            return True
        os.close(descriptor)
        if answer == AGAIN:
            raise DecisionsUnavailable("the server has no descriptor to spare for the next file")
        return False
