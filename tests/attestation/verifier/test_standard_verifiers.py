"""What others signed is believed on the word of the verifiers that the caller passes, and of nobody else."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from tests.attestation.story import NOW, Story, trust
from tests.attestation.verifier.checks import test_anchor_checks, test_approval_checks
from tests.attestation.verifier.test_signed_profiles import (
    by_sigstore,
    signed_by_identity,
    with_signatures,
)
from tests.attestation.verifier.test_verify_bundle import row

from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.errors import NotAuthenticError


class Rejected(NotAuthenticError):
    code = "test.rejected"


class Rejecting:
    """Stands for a verifier of any format: it rejects, or cannot judge, whatever it is shown."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __getattr__(self, name: str) -> object:
        def reject(*_: object, **__: object) -> object:
            raise self._error("by the verifier that was passed")

        return reject


BUNDLES = {
    "quotes": ("tee.appraisal", lambda: Story().bytes(), dict),
    "approvals": (
        "apr.bound",
        lambda: test_approval_checks.story().bytes(),
        lambda: {"profiles": [{"value": test_approval_checks.DIGEST}]},
    ),
    "profiles": (
        "pol.accepted",
        lambda: with_signatures(signed_by_identity()),
        lambda: {"profiles": ..., "profile_signers": [by_sigstore()]},
    ),
    "anchors": (
        "time.tsa",
        lambda: test_anchor_checks.anchored().to_bytes(),
        test_anchor_checks.asking,
    ),
}


@pytest.mark.parametrize("error", [Rejected, NotMade])
@pytest.mark.parametrize("name", BUNDLES)
def test_no_check_holds_that_the_passed_verifier_does_not_vouch_for(
    name: str, error: type[Exception]
) -> None:
    code, bundle, changes = BUNDLES[name]
    data, accepted = bundle(), trust(**changes())
    at = test_anchor_checks.LATER + test_anchor_checks.DAY if name == "anchors" else NOW
    asked = {"at": at, "build": "build"}
    held = verify_bundle(data, accepted, verifiers=STANDARD_VERIFIERS, **asked)
    assert row(held, code).state is State.HELD
    others = replace(STANDARD_VERIFIERS, **{name: Rejecting(error)})
    found = row(verify_bundle(data, accepted, verifiers=others, **asked), code)
    assert found.state is not State.HELD


def test_the_standard_verifiers_travel_to_the_processes_of_a_period() -> None:
    assert pickle.loads(pickle.dumps(STANDARD_VERIFIERS)) == STANDARD_VERIFIERS
