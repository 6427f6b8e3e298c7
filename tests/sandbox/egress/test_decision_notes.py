"""Whoever asked for a decision log is told every decision of the profile before it takes effect, and nothing secret."""

from __future__ import annotations

import pytest
from tests.sandbox.egress.conftest import HOST, VALUE, World
from tests.sandbox.egress.test_proxy import code, echo, get, listed, ok, with_secret

from affiant.policy.decision.decide import Decision
from affiant.policy.decision.questions import Question
from affiant.policy.decision_log.file import DecisionsUnavailable
from affiant.policy.decision_log.record import DecidedBy, decision_line


class Kept:
    """Keeps each line; from the ``fails_at``-th on, none."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.lines: list[bytes] = []
        self.told: list[tuple[Question, Decision, str | None]] = []
        self.fails_at = fails_at

    def instant(self) -> int:
        return 0

    def note(self, question, decision, *, took_ns=0, surface=None, target_hidden=False, size=None) -> None:
        if self.fails_at is not None and len(self.lines) >= self.fails_at:
            raise DecisionsUnavailable("the decision log is down")
        by = DecidedBy("s", "sha384:" + "0" * 96, "dev")
        more = {"surface": surface, "target_hidden": target_hidden, "size": size}
        self.lines.append(decision_line(by, question, decision, ts=0, **more))
        self.told.append((question, decision, surface))

    @property
    def reasons(self) -> list[str]:
        return [decision.reason for _, decision, _ in self.told]


def test_connection_request_and_secret_are_told_and_no_placeholder_or_value_is(world: World, serve) -> None:
    server = serve(echo)
    world.keep("TOKEN", VALUE)
    world.notes = kept = Kept()

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        await box.https(server.port, get("/v1?q=hunter2", bearer, port=server.port))
        return box.placeholder("TOKEN")

    placeholder = world.run(with_secret(server.port), scenario)
    assert kept.reasons == ["allowed"] * 3
    assert kept.told[2][2] == "header:authorization"
    written = b"".join(kept.lines)
    assert placeholder not in written
    assert VALUE not in written
    assert b"hunter2" not in written
    assert f"secret:TOKEN@{HOST}:{server.port}".encode() in written


def test_a_placeholder_in_the_query_of_an_allowed_request_is_not_repeated(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)
    world.notes = kept = Kept()

    async def scenario(box):
        target = "/x?key=" + box.placeholder("TOKEN").decode()
        assert (await box.https(server.port, get(target, port=server.port))).status == 200
        return box.placeholder("TOKEN")

    secret = "\nsecrets_access: [{name: TOKEN, inject: {query: key}}]"
    placeholder = world.run(listed(server.port) + secret, scenario)
    assert placeholder not in b"".join(kept.lines)
    assert kept.told[2][2] == "query:key"
    kept.lines.clear()
    placeholder = world.run(listed(server.port, "paths: [/v1/**]") + secret, scenario_denied(server.port))
    assert placeholder not in b"".join(kept.lines) and kept.reasons[-1] == "target_not_listed"


def scenario_denied(port: int):
    async def scenario(box):
        await box.https(port, get("/x?key=" + box.placeholder("TOKEN").decode(), port=port))
        return box.placeholder("TOKEN")

    return scenario


def test_a_placeholder_in_a_target_that_is_denied_is_not_repeated(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)
    world.notes = kept = Kept()

    async def scenario(box):
        target = "/x/" + box.placeholder("TOKEN").decode()
        await box.https(server.port, get(target, port=server.port))
        return box.placeholder("TOKEN")

    profile = listed(server.port, "paths: [/v1/**]") + "\nsecrets_access: [TOKEN]"
    placeholder = world.run(profile, scenario)
    assert kept.reasons == ["allowed", "target_not_listed"]
    assert placeholder not in b"".join(kept.lines)


def test_a_placeholder_out_of_its_place_is_no_decision_of_the_profile(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)
    world.notes = kept = Kept()

    async def scenario(box):
        await box.https(server.port, get("/" + box.placeholder("TOKEN").decode(), port=server.port))
        return box.placeholder("TOKEN")

    placeholder = world.run(with_secret(server.port), scenario)
    assert kept.reasons == ["allowed"]  # the connection
    assert placeholder not in b"".join(kept.lines)


def test_a_secret_that_is_wanted_where_it_is_not_bound_is_told(world: World, serve) -> None:
    server, other = serve(ok), serve(ok)
    world.keep("TOKEN", VALUE)
    world.notes = kept = Kept()

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return await box.https(other.port, get("/v1", bearer, port=other.port))

    rules = listed(server.port) + "\n" + "\n".join(listed(other.port).splitlines()[1:])
    profile = f"{rules}\nsecrets_access: [{{name: TOKEN, hosts: ['{HOST}:{server.port}']}}]"
    assert world.run(profile, scenario).status == 403
    assert kept.reasons == ["allowed", "secret_not_bound"]


@pytest.mark.parametrize(("fails_at", "received"), [(0, 0), (1, 0), (2, 0), (3, 1)])
def test_L5_what_cannot_be_told_does_not_happen(world: World, serve, fails_at: int, received: int) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)
    world.notes = Kept(fails_at)

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return await box.https(server.port, get("/v1", bearer, port=server.port))

    if fails_at == 0:
        with pytest.raises(PermissionError, match="503"):
            world.run(with_secret(server.port), scenario)
    else:
        reply = world.run(with_secret(server.port), scenario)
        assert reply.status == (200 if received else 503)
        assert received or code(reply) == "decisions.unavailable"
    assert len(server.received) == received
