"""Executables that are bytes, on kernels that do not execute every anonymous file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTING = Path("/proc/sys/vm/memfd_noexec")
PROBE = """
import json, sys
sys.path[:0] = {path!r}
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName
open({setting!r}, "w").write({level!r})
print(json.dumps(probe()[BackendName.BUBBLEWRAP].reasons))
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="a process namespace of its own needs root")
@pytest.mark.skipif(not SETTING.exists(), reason="the kernel has no vm.memfd_noexec (Linux 6.3)")
@pytest.mark.parametrize("level", [1, 2])
def test_a_kernel_that_executes_only_what_is_marked_is_usable_and_one_that_executes_nothing_is_not(level):
    """``vm.memfd_noexec`` belongs to a process namespace: the machine's own stays as it is."""
    program = PROBE.format(path=sys.path, setting=str(SETTING), level=str(level))
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program]
    said = subprocess.run(argv, capture_output=True, check=True, timeout=60).stdout
    reasons = [reason for reason in json.loads(said) if "anonymous" in reason]
    assert len(reasons) == level - 1, reasons
