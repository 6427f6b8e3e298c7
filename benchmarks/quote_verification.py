"""One simulated v4 quote, cold and warm, against ``dcap_qvl`` on the same quote and collateral.

Beside it: parsing alone, against the whole of ``dcap_qvl``'s verification; the import of the verifier in a fresh
interpreter, against that of the X.509 library it stands on; and the replay of an event log, per event, a long log
against a short one (a ratio of one is linear time).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from datetime import UTC, datetime

import dcap_qvl
from cryptography.hazmat.primitives.serialization import Encoding

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.event_log.eventlog import Event, EventLog, LoggedEvent
from affiant.attestation.tdx.event_log.measured_log import measured
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.cache import VerificationCache
from affiant.attestation.tdx.verify.verify import verify_quote
from benchmarks.timing import Figure, interleaved, seconds


def _theirs(collateral: Collateral) -> dcap_qvl.QuoteCollateralV3:
    def inner(body: bytes, member: str) -> tuple[str, str]:
        text = body.decode()
        start = text.index(f'"{member}":') + len(member) + 3
        return text[start : text.rindex(',"signature"')], json.loads(text)["signature"]

    tcb, tcb_signature = inner(collateral.tcb_info, "tcbInfo")
    qe, qe_signature = inner(collateral.qe_identity, "enclaveIdentity")
    return dcap_qvl.QuoteCollateralV3.from_json(
        json.dumps(
            {
                "pck_crl_issuer_chain": collateral.pck_crl_issuer_chain.decode(),
                "root_ca_crl": collateral.root_ca_crl.hex(),
                "pck_crl": collateral.pck_crl.hex(),
                "tcb_info_issuer_chain": collateral.tcb_info_issuer_chain.decode(),
                "tcb_info": tcb,
                "tcb_info_signature": tcb_signature,
                "qe_identity_issuer_chain": collateral.qe_identity_issuer_chain.decode(),
                "qe_identity": qe,
                "qe_identity_signature": qe_signature,
            }
        )
    )


def measure() -> list[Figure]:
    now = datetime.now(UTC)
    platform = SimulatedPlatform.create(now=now, random_bytes=os.urandom)
    registers = platform.launch(Image.SESSION, mrconfigid=b"x" * 48, mrtd=b"y" * 48, td_id=bytes(32))
    quote, collateral = platform.quote(registers, bytes(64)), platform.collateral(now)
    trust = TrustRoots.pinned([platform.root_spki()])
    theirs, root = (
        _theirs(collateral),
        platform.certificates.of(CertificateRole.ROOT).public_bytes(Encoding.DER),
    )
    at = int(now.timestamp())

    def peer() -> object:
        return dcap_qvl.verify_with_root_ca(quote, theirs, root_ca_der=root, now_secs=at)

    def cold() -> object:
        return verify_quote(parse_quote(quote), verify_collateral(collateral, now=now, trust=trust), now=now)

    cache = VerificationCache()

    def warm() -> object:
        checked = cache.verify_collateral(collateral, now=now, trust=trust)
        return verify_quote(parse_quote(quote), checked, now=now, cache=cache)

    figures = []
    for name, ours in (("quote, cold", cold), ("quote, warm", warm)):
        mine, other = interleaved(ours, peer, count=50)
        figures.append(Figure(name, mine * 1e6, "us", "dcap_qvl", other * 1e6))
    mine, other = interleaved(lambda: parse_quote(quote), peer, count=50)
    figures.append(Figure("quote, parse", mine * 1e6, "us", "dcap_qvl.verify", other * 1e6))
    return [*figures, _import_time(), _replay_time()]


def _import_time() -> Figure:
    def fresh(module: str) -> float:
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        runs = [
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True) for _ in range(5)
        ]
        return statistics.median(float(run.stdout) for run in runs)

    ours, theirs = fresh("affiant.attestation.tdx"), fresh("cryptography.x509")
    return Figure("import of the verifier", ours * 1e3, "ms", "cryptography.x509", theirs * 1e3)


def _replay_time() -> Figure:
    event = Event("tick", {"n": 1})

    def per_event(count: int) -> float:
        log = measured(EventLog((LoggedEvent(3, event),) * count))
        return seconds(log.replay, 3) / count

    long, short = per_event(100_000), per_event(10_000)
    return Figure("replay of 100,000 events, each", long * 1e6, "us", "of 10,000", short * 1e6)
