"""A machine whose clock is set while a gateway runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.gateway.in_process import in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(hours=1)])
def test_a_clock_that_is_set_ends_admission_and_breaks_no_chain(
    platform: PlatformClient, tmp_path: Path, step: timedelta
) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    with in_process(platform, store, steady=True) as inside:
        session = SessionClient.start(inside, platform)
        assert session.say("before").status == 200
        inside.clock.offset = step
        assert inside.ask("GET", "/readyz").status == 503
        with pytest.raises(AssertionError, match=r"clock\.stepped"):
            SessionClient.start(inside, platform)
        assert session.say("after").status == 200
        session.submit(session.end_record())
        session.close()
        document = session.bundle()["bundle"]
        reference = inside.service.admissions.appraiser.reference.raw
        inside.clock.offset = timedelta()
        assert inside.ask("GET", "/readyz").status == 200
        SessionClient.start(inside, platform)
    now = datetime.now(UTC)
    trust = parse_trust_file(simulated_trust_file(reference, now))
    verdict = verify_bundle(
        json.dumps(document).encode(), trust, verifiers=STANDARD_VERIFIERS, at=now, build="a test"
    )
    states = {check.code: check.state for check in verdict.checks}
    for code in ("chain.time", "chain.epochs", "chain.contiguous", "session.order"):
        assert states[code] is State.HELD, code
