"""Which credential an upstream is sent, by the API that is asked; and what it lists, in either API's form."""

from __future__ import annotations

import pytest
from tests.gateway.upstream_server import Received, completion, message, scripted_upstream, whole

from affiant.attestation.statements.gateway_config import UpstreamConfig
from affiant.gateway.upstream.http1 import Timeouts
from affiant.gateway.upstream.openai_upstream import Credentials, make_upstream, read_whole
from affiant.secrets.names.value import SecretValue

KEY = b"sk-of-the-gateway"
BEARER = f"Bearer {KEY.decode()}"


def upstream_at(url: str, *, key: bytes | None = KEY):
    config = UpstreamConfig(id="scripted", url=url, bind="none", key="local:K", roots=())
    return make_upstream(
        config, Credentials(key=None if key is None else SecretValue(key)), timeouts=Timeouts()
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "answer", "key"),
    [
        ("/chat/completions", completion(), None),
        ("/embeddings", completion(), None),
        ("/messages", message(), KEY.decode()),
        ("/messages/count_tokens", {"input_tokens": 1}, KEY.decode()),
    ],
)
async def test_the_key_is_where_each_api_has_it(path: str, answer: dict, key: str | None) -> None:
    with scripted_upstream(lambda _: whole(answer)) as started:
        upstream = upstream_at(started.url)
        await read_whole(await upstream.request("POST", path, b"{}", attempts=[], accept=b"*/*"))
        await upstream.close()
        (received,) = started.received
    assert (received.headers["authorization"], received.headers.get("x-api-key")) == (BEARER, key)


@pytest.mark.anyio
async def test_without_a_key_none_is_sent() -> None:
    with scripted_upstream(lambda _: whole(message())) as started:
        upstream = upstream_at(started.url, key=None)
        await read_whole(await upstream.request("POST", "/messages", b"{}", attempts=[], accept=b"*/*"))
        await upstream.close()
        (received,) = started.received
    assert not {"authorization", "x-api-key"} & set(received.headers)


@pytest.mark.anyio
async def test_models_are_listed_in_both_apis_and_all_pages_at_once() -> None:
    def listing(received: Received):
        whole_list = b"limit=1000" in received.head
        names = ("a", "b", "c") if whole_list else ("a",)
        return whole({"data": [{"type": "model", "id": name} for name in names], "has_more": not whole_list})

    with scripted_upstream(listing) as started:
        upstream = upstream_at(started.url)
        assert await upstream.models() == ("a", "b", "c")
        await upstream.close()
        assert len(started.received) == 2
        for received in started.received:
            assert received.headers["x-api-key"] == KEY.decode()
            assert (received.headers["authorization"], received.headers["anthropic-version"]) == (
                BEARER,
                "2023-06-01",
            )
