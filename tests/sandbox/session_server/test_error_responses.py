"""Errors as callers see them: a status for each code, who failed, and nothing of the operator's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from affiant.errors import (
    AffiantError,
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    StateError,
    UnreachableError,
)
from affiant.sandbox.session_server.error_responses import STATUS, error_document, status_of
from affiant.sandbox.supervisor.launch.control import refusal_members, sent_error

CODES = {
    code
    for codes in json.loads((Path(__file__).parents[2] / "error_codes.json").read_text()).values()
    for code in codes
}


def test_every_listed_code_is_one_that_there_is() -> None:
    assert [code for code in STATUS if code not in CODES] == []


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("m", code="isolation.unavailable"),
        ConfigurationError("m", code="policy.file"),
        ConfigurationError("m", code="service.unreadable"),
        ConfigurationError("m", code="session.gateway_address"),
        ConfigurationError("m", code="session.platform"),
        ConfigurationError("m", code="store.permissions"),
        ConfigurationError("m", code="vault.not_found"),
        MalformedError("m", code="policy.syntax"),
        NotAllowedError("m", code="gateway.proof_refused"),
        NotAuthenticError("m", code="policy.signature"),
        StateError("m", code="session.host_failed"),
        StateError("m", code="session.server_failed"),
        StateError("m", code="store.locked"),
        UnreachableError("m", code="gateway.unreachable"),
    ],
)
def test_what_the_operator_gave_is_no_fault_of_a_caller_or_a_session(error: AffiantError) -> None:
    for each in (error, sent_error(refusal_members(error))):  # a session host has sent it, without its class
        assert status_of(each) in (500, 503)
        assert error_document(each).error.who == "server"


@pytest.mark.parametrize(
    ("error", "status", "who"),
    [
        (ConfigurationError("m", code="policy.unknown_agent"), 422, "caller"),
        (ConfigurationError("m", code="session.environment"), 422, "caller"),
        (ConfigurationError("m", code="session.resources"), 422, "caller"),
        (NotAllowedError("m", code="files.path"), 403, "caller"),
        (NotAllowedError("m", code="ports.denied"), 403, "caller"),
        (StateError("m", code="session.not_open"), 409, "session"),
        (StateError("m", code="files.kind"), 409, "session"),
    ],
)
def test_what_a_caller_asked_for_is_the_caller_s_or_the_session_s(
    error: AffiantError, status: int, who: str
) -> None:
    for each in (error, sent_error(refusal_members(error))):
        assert (status_of(each), error_document(each).error.who) == (status, who)


def test_no_place_of_the_operator_s_and_no_command_line_is_shown() -> None:
    for code in ("policy.file", "session.not_open", "session.not_gathered", "store.permissions"):
        error = StateError(
            "it cannot be read",
            where="/home/operator/profiles.yaml",
            found="mode 644",
            hint="See: affiant session ls",
            code=code,
        )
        for each in (error, sent_error(refusal_members(error))):
            shown = error_document(each).error
            assert (shown.message, shown.hint) == ("it cannot be read; found mode 644", None)


def test_a_place_in_a_session_or_a_request_is_shown_and_so_is_a_hint_for_callers() -> None:
    for code in ("files.missing", "session.archive", "session.request"):
        error = StateError("it is not there", where="/workspace/x", hint="Look", code=code)
        for each in (error, sent_error(refusal_members(error))):
            shown = error_document(each).error
            assert shown.message == "/workspace/x: it is not there"
            assert shown.hint == ("Look" if code == "session.request" else None)
