"""Sessions that a caller's agent starts are the caller's, and count as such."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

import httpx
import pytest
from tests.sandbox.conftest import made_machine
from tests.sandbox.session.test_session_children import CALLS, PROFILES
from tests.sandbox.session_server.conftest import Issuer, Served, started

pytestmark = pytest.mark.slow


@pytest.fixture
def served(isolation: str, release: None) -> Iterator[Served]:
    with made_machine(isolation) as machine:
        (machine.folder / "profiles.yaml").write_text(PROFILES)
        machine.keep_services()
        issuer = Issuer()
        options = (
            *("--profile", str(machine.folder / "profiles.yaml"), "--min-isolation", machine.isolation),
            *("--oidc-issuer", issuer.url, "--oidc-audience", "affiant", "--oidc-subject", "alice"),
            *("--oidc-subject", "bob", "--sessions-each", "2"),
        )
        process, url = started(machine, ("--listen", "127.0.0.1:0", *options))
        yield Served(machine, issuer, options, process, url)
        process.terminate()
        assert process.wait(20) == 0
        issuer.server.shutdown()
        issuer.server.server_close()


def listed(client: httpx.Client) -> dict[str, tuple[str, str]]:
    found = client.get("/v1/sessions").json()["sessions"]
    return {each["session"]: (each["agent"], each["state"]) for each in found}


def test_a_callers_children_are_the_callers(served: Served) -> None:
    code = CALLS + textwrap.dedent("""
        show(call("session_create", agent="helper")["session"])
    """)
    with served.client() as alice, served.client("bob") as bob:
        lead = alice.post("/v1/sessions", json={"agent": "lead", "ttl": 300}).json()["session"]
        ran = alice.post(f"/v1/sessions/{lead}/exec", json={"argv": ["python3", "-c", code]})
        assert ran.status_code == 200, ran.text
        child = json.loads(ran.json()["stdout"])
        assert listed(alice)[child] == ("helper", "running") and listed(bob) == {}
        full = alice.post("/v1/sessions", json={"agent": "helper", "ttl": 300})
        assert full.json()["error"]["code"] == "session.too_many", "the child counts"
        assert alice.post(f"/v1/sessions/{lead}/stop").status_code == 200
        assert {state for _, state in listed(alice).values()} == {"closed"}
        assert alice.get(f"/v1/sessions/{child}/bundle").status_code == 200
        assert bob.get(f"/v1/sessions/{child}/bundle").status_code == 404
