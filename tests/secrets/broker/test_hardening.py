"""What the broker says of its own protection is what the kernel says of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, resource, sys
from affiant.secrets.broker.hardening import harden
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_MEMLOCK, (min(limit, 1 << 16) if limit >= 0 else -1, limit))
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
status = harden()
print(json.dumps([status.to_json(), open("/proc/self/status").read()]))
"""


def hardened(limit: int) -> tuple[bool, int]:
    """What a broker with so much memory to lock says, and how many KiB the kernel has locked for it."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(limit)], check=True, capture_output=True, cwd="/", timeout=30
    )
    status, shown = json.loads(done.stdout)
    return status["memory_locked"], int(re.search(r"VmLck:\s+([0-9]+) kB", shown)[1])


def test_a_broker_that_may_not_lock_its_memory_says_so() -> None:
    assert hardened(1 << 16) == (False, 0)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the limit cannot be raised")
def test_a_broker_whose_limit_can_be_raised_locks_its_memory() -> None:
    """The soft limit is 64 KiB: the hard one counts."""
    try:
        said, kib = hardened(-1)
    except subprocess.CalledProcessError as error:
        if b"not allowed to raise" in error.stderr:
            pytest.skip("this root may not raise limits")
        raise
    assert said is True
    assert kib > 0
