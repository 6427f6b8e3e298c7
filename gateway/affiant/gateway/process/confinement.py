"""What the server takes from itself and from others before it makes a key: Linux, prctl(2).

No other process of the same user can attach to it or read its memory, no core file is written, no new privilege
is gained, and it does not outlive the launcher that started it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Final

from affiant.errors import ConfigurationError

__all__ = ["confine"]

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38


def confine() -> None:
    """Close this process to inspection, and have it stopped when its parent ends.

    Raises:
        ``gateway.settings``: the kernel refuses.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))  # each connection is one
    libc = ctypes.CDLL(None, use_errno=True)
    options = (
        (_PR_SET_DUMPABLE, 0),
        (_PR_SET_NO_NEW_PRIVS, 1),
        (_PR_SET_PDEATHSIG, int(signal.SIGTERM)),
    )
    for option, value in options:
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise ConfigurationError(
                "prctl refuses", found=os.strerror(ctypes.get_errno()), code="gateway.settings"
            )
