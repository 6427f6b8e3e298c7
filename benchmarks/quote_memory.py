"""Memory over 1,000,000 verifications: what the process holds at the end, against what it held after the first 2 %.

A ratio of one is flat. The work is mixed, as a gateway meets it: quotes of four platforms over ever new report data,
most of them warm, every 50th cold, every 20th damaged and refused. It runs in a process of its own; resident memory is
read from ``/proc/self/statm``. Takes some minutes; ``python -m benchmarks.quote_memory 100000`` runs fewer.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.cache import VerificationCache
from affiant.attestation.tdx.verify.verify import verify_quote
from affiant.errors import AffiantError
from benchmarks.timing import Figure

VERIFICATIONS = 1_000_000
DISTINCT = 500
"""Quotes that are made beforehand, of each platform; making one costs as much as verifying one."""
COLD, DAMAGED = 50, 20
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def measure() -> list[Figure]:
    run = subprocess.run(
        [sys.executable, "-m", __name__, str(VERIFICATIONS)],
        check=True,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    early, late = json.loads(run.stdout)
    return [Figure(f"memory, {VERIFICATIONS:,} quotes", late, "MiB", "after 2 % of them", early)]


def run(total: int) -> tuple[float, float]:
    """Resident MiB after 2 % of ``total`` verifications, and after all."""
    now = datetime.now(UTC)
    platforms = [SimulatedPlatform.create(now=now, random_bytes=os.urandom) for _ in range(4)]
    trust = TrustRoots.pinned([platform.root_spki() for platform in platforms])
    work = [
        (quote, platform.collateral(now))
        for platform in platforms
        for quote in islice(_quotes(platform), DISTINCT)
    ]
    cache = VerificationCache()
    early, refused, began = 0.0, 0, time.monotonic()
    for number in range(1, total + 1):
        quote, collateral = work[number % len(work)]
        if number % DAMAGED == 0:
            at = number % 632
            quote = quote[:at] + bytes((quote[at] ^ 0x01,)) + quote[at + 1 :]
        cold = number % COLD == 1
        try:
            checked = (verify_collateral if cold else cache.verify_collateral)(
                collateral, now=now, trust=trust
            )
            verify_quote(parse_quote(quote), checked, now=now, cache=None if cold else cache)
        except AffiantError:
            refused += 1
        if number == max(1, total // 50):
            early = _resident()
        if number % max(1, total // 10) == 0:
            rate = number / (time.monotonic() - began)
            print(f"  {number:,}: {_resident():.1f} MiB, {rate:,.0f}/s", file=sys.stderr, flush=True)
    if refused != total // DAMAGED:
        raise AssertionError(f"{refused} of {total} were refused, expected {total // DAMAGED}")
    return early, _resident()


def _quotes(platform: SimulatedPlatform) -> Iterator[bytes]:
    registers = platform.launch(Image.SESSION, mrconfigid=b"x" * 48, mrtd=b"y" * 48, td_id=bytes(32))
    for number in count():
        yield platform.quote(registers, hashlib.sha512(number.to_bytes(8, "big")).digest())


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / MIB


if __name__ == "__main__":
    json.dump(run(int(sys.argv[1]) if len(sys.argv) > 1 else VERIFICATIONS), sys.stdout)
