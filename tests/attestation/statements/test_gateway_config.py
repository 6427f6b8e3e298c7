"""Which addresses may be an upstream's: none that could hold a key or cannot be dialled; ids of servers of tools."""

from __future__ import annotations

import pytest

from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.attestation.statements.gateway_config import (
    DEV_ECHO,
    LOCAL_ISSUER,
    MCPServerConfig,
    is_upstream_url,
    make_gateway_config,
)

NOT_AN_UPSTREAM = (
    "localhost:8000/v1",
    "ftp://host/v1",
    "http:///v1",
    "http://host:0/v1",
    "http://host:99999/v1",
    "http://user:hunter2@host/v1",
    "http://@host/v1",
    "http://host/v1?key=hunter2",
    "http://host/v1?",
    "http://host/v1#x",
    "http://host/v1#",
    "http://host/a b",
    "http://h\u00f6st/v1",
    "HTTP://host/v1",
    "http://[::1/v1",
    f"http://{'h' * 256}/v1",
    f"http://host/{'p' * 600}",
    "",
)


@pytest.mark.parametrize("url", NOT_AN_UPSTREAM)
def test_what_is_no_upstreams_address(url: str) -> None:
    assert not is_upstream_url(url)


@pytest.mark.parametrize(
    "url", [DEV_ECHO.url, "https://api.example.com/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1"]
)
def test_what_is_one(url: str) -> None:
    assert is_upstream_url(url)


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("affiant-sessions", False),
        ("affiant-sessions-2", True),
        ("x-affiant-sessions", True),
        ("affiant-sessions\n", False),
        ("Affiant-sessions", False),
    ],
)
def test_no_server_of_tools_has_the_id_of_affiants_own(name: str, taken: bool) -> None:
    def made() -> object:
        return make_gateway_config(
            iss=LOCAL_ISSUER,
            cls="simulated",
            origin="example.com/log",
            reference="sha256:" + "0" * 64,
            upstreams=(DEV_ECHO,),
            mcp_servers=(MCPServerConfig(id=name, command=("/bin/true",)),),
        )

    if taken:
        made()
    else:
        with pytest.raises(ShapeMismatch):
            made()
