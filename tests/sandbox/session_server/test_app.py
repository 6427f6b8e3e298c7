"""The application behind its guard: its document, and what no caller gets without being asked who it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest
from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from affiant.sandbox.processes.home import open_home
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_server.app import session_app
from affiant.sandbox.session_server.callers import TokenCallers
from affiant.sandbox.session_server.guard import Guard, Places
from affiant.sandbox.session_server.held_ports import HeldPorts
from affiant.sandbox.session_server.owned_sessions import Bounds, OwnedSessions

TOKEN = "t" * 40
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}
DOCUMENT = json.loads((Path(__file__).parent / "openapi.json").read_text())
OPERATIONS = [(verb, path) for path, verbs in DOCUMENT["paths"].items() for verb in verbs]


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    sessions = OwnedSessions(
        open_home(tmp_path / "home"),
        SessionRequest(profile=tmp_path / "none.yaml", agent=""),
        Bounds(most_ttl_s=1000),
    )
    return Guard(
        session_app(sessions, HeldPorts()),
        TokenCallers(TOKEN.encode()),
        requests=Places(2, 2),
        trees=Places(2, 2),
    )


def ask(guard: Guard, verb: str, path: str, **more) -> httpx.Response:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(guard, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return await client.request(verb, path, **more)

    return asyncio.run(asked())


def error(response: httpx.Response) -> tuple[int, str]:
    assert set(response.json()) == {"error"}
    assert set(response.json()["error"]) == {"code", "message", "hint", "who", "retryable"}
    return response.status_code, response.json()["error"]["code"]


def test_the_published_document_is_the_one_that_is_served(guard: Guard) -> None:
    served = ask(guard, "GET", "/openapi.json").json()
    assert served == DOCUMENT
    assert DOCUMENT["components"]["securitySchemes"] == {"HTTPBearer": {"type": "http", "scheme": "bearer"}}


@pytest.mark.parametrize(("verb", "path"), OPERATIONS)
def test_no_route_answers_a_stranger_or_reads_what_it_sends(guard: Guard, verb: str, path: str) -> None:
    async def never() -> AsyncIterator[bytes]:
        pytest.fail("the body was read")
        yield b""

    place = path.replace("{session}", "a" * 22).replace("{number}", "1").replace("{port}", "1")
    for headers in ({}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": TOKEN}):
        refused = ask(guard, verb, place, headers=headers, content=never())
        assert error(refused) == (401, "session.caller")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in refused.text


@pytest.mark.parametrize(("verb", "path"), OPERATIONS)
def test_a_session_that_is_not_there_is_not_found_by_any_route(guard: Guard, verb: str, path: str) -> None:
    if "{session}" not in path:
        return
    place = path.replace("{session}", "a" * 22).replace("{number}", "1").replace("{port}", "1")
    bodies: Mapping[str, dict] = {
        "/exec": {"argv": ["true"]},
        "/stream": {"argv": ["true"]},
        "/commands": {"argv": ["true"]},
        "/signal": {"signal": 15},
        "/ports": {"port": 8080},
    }
    body = next((each for end, each in bodies.items() if path.endswith(end)), None)
    params = {"path": "/workspace/x", "bundle": f"sha256:{'0' * 64}"}
    assert error(ask(guard, verb, place, headers=AUTHORIZED, params=params, json=body)) == (
        404,
        "session.not_here",
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"agent": ""},
        {"agent": "writer", "profile": "/etc/passwd"},
        {"agent": "writer", "input": "/root"},
        {"agent": "writer", "owner": "bob"},
        {"agent": "writer", "ttl": 0},
        {"agent": "writer", "ttl": "60"},
        {"agent": "writer", "resources": {"memory": 2**60}},
        {"agent": "writer", "task": {"secret": "x"}},
        [],
        "writer",
    ],
)
def test_a_request_of_another_form_creates_nothing_and_is_not_repeated_back(
    guard: Guard, body: object
) -> None:
    refused = ask(guard, "POST", "/v1/sessions", headers=AUTHORIZED, json=body)
    assert error(refused) == (422, "session.request")
    assert not {"passwd", "/root", "bob"} & set(refused.text.replace('"', " ").replace("/", " ").split())


def test_names_times_and_keys_are_bounded(guard: Guard) -> None:
    def created(body: dict, **headers: str) -> tuple[int, str]:
        return error(ask(guard, "POST", "/v1/sessions", headers={**AUTHORIZED, **headers}, json=body))

    assert created({"agent": "writer", "name": "A B"}) == (422, "session.name")
    assert created({"agent": "writer", "ttl": 1001}) == (422, "session.ttl")
    assert created({"agent": "writer"}, **{"idempotency-key": "k" * 256}) == (422, "session.request")
    assert created({"agent": "writer"}, **{"idempotency-key": ""}) == (400, "session.request")


def test_a_document_that_is_too_large_is_not_kept(guard: Guard) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1 << 20
            yield b" " * (1 << 20)

    refused = ask(guard, "POST", "/v1/sessions", headers=AUTHORIZED, content=endless())
    assert error(refused) == (413, "session.too_large")
    assert sent < 64 << 20


@pytest.mark.parametrize(
    ("verb", "path"), [("GET", "/v1/nothing"), ("PUT", "/v1/sessions"), ("GET", "/docs")]
)
def test_other_paths_and_methods_are_errors_in_the_same_form(guard: Guard, verb: str, path: str) -> None:
    assert error(ask(guard, verb, path, headers=AUTHORIZED))[1] == "session.request"


@pytest.mark.parametrize("name", ["..", "../x", "%2e%2e", "a/b", "a" * 64, "-a", "a%0A"])
def test_a_session_s_name_is_no_path(guard: Guard, name: str) -> None:
    status, code = error(ask(guard, "GET", f"/v1/sessions/{name}", headers=AUTHORIZED))
    assert (status, code) in ((404, "session.request"), (422, "session.request"))


def test_more_requests_than_may_be_under_way_are_sent_away(guard: Guard) -> None:
    held, waiting = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send) -> None:
        waiting.set()
        await held.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def scenario() -> None:
        crowded = Guard(app, TokenCallers(TOKEN.encode()), requests=Places(1, 1), trees=Places(1, 1))
        transport = httpx.ASGITransport(crowded)
        async with httpx.AsyncClient(transport=transport, base_url="http://s", headers=AUTHORIZED) as client:
            first = asyncio.create_task(client.get("/v1/sessions"))
            await waiting.wait()
            second = await client.get("/v1/sessions")
            assert error(second) == (503, "session.crowded")
            assert second.json()["error"]["retryable"] is True
            stranger = await client.get("/v1/sessions", headers={"authorization": "Bearer x"})
            assert error(stranger) == (401, "session.caller"), "asked before, so that strangers take no place"
            held.set()
            assert (await first).status_code == 204
            assert (await client.get("/v1/sessions")).status_code == 204

    asyncio.run(scenario())


class Named:
    """Callers who say who they are."""

    async def owner(self, authorization: str | None) -> str:
        assert authorization is not None
        return authorization


def test_no_caller_and_no_kind_of_request_keeps_the_others_out() -> None:
    async def app(scope, receive, send) -> None:
        under_way.append(scope["path"])
        await held.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    held, under_way = asyncio.Event(), list[str]()

    async def scenario() -> None:
        crowded = Guard(app, Named(), requests=Places(9, 4), trees=Places(3, 2))
        transport = httpx.ASGITransport(crowded)
        async with httpx.AsyncClient(transport=transport, base_url="http://s") as client:

            def asks(who: str, path: str) -> asyncio.Task[httpx.Response]:
                return asyncio.create_task(client.get(path, headers={"authorization": who}))

            async def rejected(who: str, path: str) -> bool:
                return error(await asks(who, path)) == (503, "session.crowded")

            held_by = [asks("alice", "/v1/sessions/x/tree") for _ in range(2)]
            while len(under_way) < 2:
                await asyncio.sleep(0)
            assert await rejected("alice", "/v1/sessions/x/tree")
            held_by += [asks("alice", "/v1/sessions") for _ in range(2)]
            while len(under_way) < 4:
                await asyncio.sleep(0)
            assert await rejected("alice", "/v1/sessions")
            held_by.append(asks("bob", "/v1/sessions/y/tree"))
            while len(under_way) < 5:
                await asyncio.sleep(0)
            assert await rejected("carol", "/v1/sessions/x/tree"), "of all callers three"
            held_by.append(asks("carol", "/v1/sessions"))
            while len(under_way) < 6:
                await asyncio.sleep(0)
            held.set()
            assert [answer.status_code for answer in await asyncio.gather(*held_by)] == [204] * 6
            assert (await asks("alice", "/v1/sessions/x/tree")).status_code == 204

    asyncio.run(scenario())


@pytest.mark.parametrize("begun", [False, True])
def test_a_mistake_of_ours_is_the_server_s_and_one_line_in_its_log(
    caplog: pytest.LogCaptureFixture, *, begun: bool
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"first"
        raise RuntimeError(TOKEN)

    async def failing(request: Request) -> Response:
        if begun:
            return StreamingResponse(broken())
        raise RuntimeError(TOKEN)

    app = session_app(None, None)  # type: ignore[arg-type]
    app.add_route("/v1/failing", failing)
    guard = Guard(app, TokenCallers(TOKEN.encode()), requests=Places(2, 2), trees=Places(2, 2))
    failed = ask(guard, "GET", "/v1/failing", headers=AUTHORIZED)
    if not begun:
        assert error(failed) == (500, "session.server_failed")
        assert failed.json()["error"]["who"] == "server"
    assert TOKEN not in failed.text
    (line,) = caplog.messages
    assert line.startswith("internal error of the server: RuntimeError at test_app.py:")
    assert TOKEN not in caplog.text


def test_a_mistake_while_it_is_asked_who_calls_is_one_too(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        async def owner(self, authorization: str | None) -> str:
            raise RuntimeError(authorization)

    guard = Guard(session_app(None, None), Failing(), requests=Places(2, 2), trees=Places(2, 2))  # type: ignore[arg-type]
    failed = ask(guard, "GET", "/v1/sessions", headers=AUTHORIZED)
    assert error(failed) == (500, "session.server_failed")
    assert len(caplog.messages) == 1 and TOKEN not in caplog.text + failed.text
