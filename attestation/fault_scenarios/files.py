"""Evidence as files: what one scenario's folder holds, and the command line that judges it. Pure: bytes by path.

::

    quote.bin  collateral.json  root.pem  eventlog.json     the evidence
    reference.json  policy.yaml                             what the reader accepts, where the scenario asks it
    expected.json                                           one case, docs/formats/conformance.md
    SIMULATED.txt                                           what this is, and the command line

What steps back cannot be shown by one command: a memory is needed, and ``seen/collateral.json`` is what it must have
seen.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fault_scenarios.evidence import Evidence

__all__ = ["LABEL", "evidence_files", "pem_of", "to_json_bytes", "verify_command"]

LABEL: Final = (
    "SIMULATED evidence of affiant's simulated TDX platform. No hardware made it; no verdict on it counts."
)


def evidence_files(evidence: Evidence) -> Mapping[str, bytes]:
    """Name -> bytes of everything but ``expected.json`` and ``SIMULATED.txt``."""
    asked = evidence.asked
    files = {
        "quote.bin": evidence.quote,
        "collateral.json": evidence.collateral,
        "root.pem": pem_of(evidence.root),
        "eventlog.json": evidence.event_log,
        "reference.json": asked.reference,
        "policy.yaml": asked.policy,
        "seen/collateral.json": evidence.seen,
    }
    return {name: content for name, content in files.items() if content is not None}


def pem_of(der: bytes) -> bytes:
    """The certificate in PEM."""
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def to_json_bytes(document: Mapping[str, object]) -> bytes:
    """A JSON document for people to read."""
    return json.dumps(document, indent=2, sort_keys=True).encode("ascii") + b"\n"


def verify_command(folder: PurePath, evidence: Evidence) -> str:
    """The command line that judges the evidence in ``folder``."""
    asked = evidence.asked
    words = ["affiant", "quote", "verify", str(folder / "quote.bin")]
    words += ["--collateral", str(folder / "collateral.json"), "--root", str(folder / "root.pem")]
    words += ["--at", f"{evidence.at:%Y-%m-%dT%H:%M:%SZ}"]
    for option, value in (
        ("--reference", None if asked.reference is None else folder / "reference.json"),
        ("--policy", None if asked.policy is None else folder / "policy.yaml"),
        ("--event-log", folder / "eventlog.json" if asked.event_log else None),
        ("--mrconfigid", None if asked.mrconfigid is None else asked.mrconfigid.hex()),
        ("--report-data", None if asked.report_data is None else asked.report_data.hex()),
        ("--rtmr3", None if asked.rtmr3 is None else asked.rtmr3.hex()),
    ):
        if value is not None:
            words += [option, str(value)]
    return shlex.join(words)
