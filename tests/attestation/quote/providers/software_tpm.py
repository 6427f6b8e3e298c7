"""A real TPM 2.0 in software: ``swtpm`` on loopback, filled by ``tpm2-tools``, which is the second opinion here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from affiant.attestation.quote.providers.tpm.tpm_device import TPMSocket

ATTESTATION_KEY = "0x81000003"
_ATTRIBUTES = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|sign"


def missing() -> str | None:
    """What is not installed; None: everything is there."""
    names = [name for name in ("swtpm", "tpm2_createprimary") if shutil.which(name) is None]
    return None if not names else f"{' and '.join(names)} not installed (apt-get install swtpm tpm2-tools)"


class SoftwareTPM:
    """A running ``swtpm`` with an RSA attestation key at the handle where Azure has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = _free_pair()
        self.address = ("127.0.0.1", port)
        self.process = subprocess.Popen(
            [
                "swtpm", "socket", "--tpm2", "--tpmstate", f"dir={folder}",
                "--server", f"type=tcp,port={port}", "--ctrl", f"type=tcp,port={port + 1}",
                "--flags", "not-need-init,startup-clear",
            ],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self._wait()
        self.tool(
            "tpm2_createprimary",
            "-C",
            "o",
            "-G",
            "rsa2048:rsassa-sha256:null",
            "-a",
            _ATTRIBUTES,
            "-c",
            "ak.ctx",
        )
        self.tool("tpm2_evictcontrol", "-C", "o", "-c", "ak.ctx", ATTESTATION_KEY)
        self.tool("tpm2_flushcontext", "-t")

    def tool(self, *command: str) -> str:
        """One of the tools against this TPM; its standard output."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "TPM2TOOLS_TCTI": f"swtpm:host=127.0.0.1,port={self.address[1]}"},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout

    def transport(self) -> TPMSocket:
        return TPMSocket(self.address, silence_s=20)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)

    def _wait(self) -> None:
        for _ in range(200):
            try:
                socket.create_connection(self.address, timeout=1).close()
            except ConnectionRefusedError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("swtpm does not listen")


def _free_pair() -> int:
    """A port that is free, as is the next one: the tools look for the control channel there."""
    for _ in range(100):
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            try:
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two free ports")
