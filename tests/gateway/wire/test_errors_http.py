"""One table decides the status of every refusal, and every refusal has a code of its own."""

from __future__ import annotations

import inspect
import json

import pytest

from affiant import errors as families
from affiant.attestation.signatures.approvers.errors import ReaderRefused
from affiant.attestation.signatures.sigstore.errors import TrustedRootUnusable
from affiant.errors import AffiantError
from affiant.gateway import error_codes
from affiant.gateway.wire import errors
from affiant.gateway.wire.errors import QueueError
from affiant.gateway.wire.errors_http import STATUS, error_body, error_headers, status_of
from affiant.policy.approvals.errors import TooManyApprovals
from affiant.policy.decision_log.file import DecisionsUnavailable
from affiant.policy.error_codes import ERROR_CODES as POLICY_CODES

ERRORS = [(name, getattr(errors, name).code) for name in errors.__all__]
ERRORS += [(family, code) for code, (family, _) in error_codes.ERROR_CODES.items()]


def test_codes_are_unique_and_spelled_alike() -> None:
    codes = [code for _, code in ERRORS]
    assert len(set(codes)) == len(codes)
    assert all(code == code.lower() and " " not in code for code in codes)


@pytest.mark.parametrize(("name", "code"), ERRORS, ids=[code for _, code in ERRORS])
def test_every_refusal_has_a_status_and_the_apis_body(name: str, code: str) -> None:
    kind = getattr(errors if name in errors.__all__ else families, name)
    waits = {"retry_after_s": 1} if kind is QueueError else {}
    error = kind("what happened\x1b[2J\u202e", code=code, expected="x", found="y", **waits)
    assert 400 <= status_of(error) <= 599
    body = json.loads(error_body(error))
    assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "code", "param"}
    assert body["error"]["code"] == code and body["error"]["param"] is None
    assert "\x1b" not in body["error"]["message"] and "\u202e" not in body["error"]["message"]
    assert dict(error_headers(error))[b"x-should-retry"] in (b"true", b"false")


def test_the_table_names_codes_that_exist() -> None:
    from affiant.attestation.records import proof

    known = {code for _, code in ERRORS}
    known |= {o.code for _, o in inspect.getmembers(proof, inspect.isclass) if issubclass(o, AffiantError)}
    known |= {each.code for each in (DecisionsUnavailable, ReaderRefused, TooManyApprovals)}
    known |= {TrustedRootUnusable.code, *POLICY_CODES}
    assert set(STATUS) <= known


def test_a_refusal_outside_the_table_has_its_familys_status() -> None:
    from affiant.errors import MalformedError, NotAllowedError

    class Strange(MalformedError):
        code = "strange.thing"

    class Denied(NotAllowedError):
        code = "strange.denied"

    assert (status_of(Strange("x")), status_of(Denied("x"))) == (400, 403)
    assert status_of(AffiantError("x")) == 500
