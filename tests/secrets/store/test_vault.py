from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.secrets.certificates import Authority
from tests.secrets.conftest import fetched, request_to
from tests.secrets.upstream_server import answer
from tests.secrets.vault_server import VaultServer

from affiant.errors import AffiantError
from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import Configuration, Grant, VaultSettings
from affiant.secrets.broker.session import open_session
from affiant.secrets.broker.tokens.tokens import Instants
from affiant.secrets.injection.placeholder import Binding, Endpoint, mint_placeholder
from affiant.secrets.names.errors import (
    SecretTooWeak,
    SecretValueInvalid,
    VaultDenied,
    VaultResponseMalformed,
)
from affiant.secrets.names.source import LocalReference, VaultReference
from affiant.secrets.store.vault import VaultJWT, VaultSource, VaultToken

VALUE = "ghp_9sX2kQ7vLm4TzR1bYwE6"
WHERE = VaultReference("kv", "team/cloud", "token")


@pytest.fixture(scope="module")
def vault_certificate(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return authority.leaf(tmp_path_factory.mktemp("vault"), "127.0.0.1")


@pytest.fixture
def vault(vault_certificate: Path) -> Iterator[VaultServer]:
    with VaultServer(vault_certificate) as server:
        server.put("kv", "team/cloud", token=VALUE)
        yield server


@contextlib.contextmanager
def source(
    vault: VaultServer, authority: Authority, login=None, *, timeout_s: float = 5
) -> Iterator[VaultSource]:
    login = login or VaultToken(vault.token())
    with contextlib.closing(
        VaultSource(vault.address, roots=(authority.pem,), login=login, timeout_s=timeout_s)
    ) as opened:
        yield opened


def told(error: BaseException) -> str:
    """All that a careless log would hold."""
    shown = traceback.TracebackException.from_exception(error)
    return "".join(shown.format()) + repr(error) + str(getattr(error, "__cause__", ""))


def test_the_newest_version_of_a_field_is_resolved(vault, authority) -> None:
    with source(vault, authority) as opened:
        assert opened.resolve(WHERE).version == "1"
        vault.put("kv", "team/cloud", token=VALUE[::-1])
        resolved = opened.resolve(WHERE)
    assert (resolved.value.reveal(), resolved.version) == (VALUE[::-1].encode(), "2")
    assert {asked.path for asked in vault.asked} == {"/v1/kv/data/team/cloud"}
    assert all("x-vault-namespace" not in asked.headers for asked in vault.asked)


@pytest.mark.parametrize("status", ["https://elsewhere.example", "https://127.0.0.1:1"])
def test_v1_a_redirect_is_not_followed_and_carries_no_token(
    vault, authority, vault_certificate, status
) -> None:
    with VaultServer(vault_certificate) as other, source(vault, authority) as opened:
        vault.fault, vault.redirect_to = "redirect", other.address
        with raises_code("vault.redirected"):
            opened.resolve(WHERE)
        assert other.asked == []


@pytest.mark.parametrize(
    "where",
    [
        VaultReference("kv", "../sys/seal", "f"),
        VaultReference("kv", "a/../../sys", "f"),
        VaultReference("kv", ".", "f"),
        VaultReference("..", "a", "f"),
        VaultReference("kv", "", "f"),
        VaultReference("kv", "a//b", "f"),
        VaultReference("kv", "/a", "f"),
        VaultReference("kv", "a%2f..%2fsys", "f"),
        VaultReference("kv", "a?list=true", "f"),
        VaultReference("kv", "a#b", "f"),
        VaultReference("kv/a", "b", "f"),
        VaultReference("kv", "a\\b", "f"),
        VaultReference("kv", "a\r\nX: y", "f"),
        VaultReference("kv", "ä", "f"),
    ],
)
def test_v2_a_path_that_leads_elsewhere_is_refused_before_it_is_sent(vault, authority, where) -> None:
    with source(vault, authority) as opened, raises_code("vault.path"):
        opened.resolve(where)
    assert vault.asked == []


def test_v3_v4_the_environment_and_the_home_folder_are_not_read(
    vault, authority, vault_certificate, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with VaultServer(vault_certificate) as other:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, other.address)
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("VAULT_ADDR", other.address)
        monkeypatch.setenv("VAULT_TOKEN", "hvs.from-the-environment")
        monkeypatch.setenv("VAULT_NAMESPACE", "elsewhere")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".vault-token").write_text("hvs.from-the-home-folder")
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
        with source(vault, authority) as opened:
            opened.resolve(WHERE)
        with source(vault, authority, VaultJWT("role", "jwt", "not registered")) as opened:
            with pytest.raises(VaultDenied):
                opened.resolve(WHERE)
        assert other.asked == []
    sent = "".join(f"{asked.headers}" for asked in vault.asked)
    assert "from-the" not in sent
    assert "authorization" not in sent.lower()


FAULTS = {
    "redirect": "vault.redirected",
    "sealed": "vault.sealed",
    "uninitialised": "vault.sealed",
    "standby": "vault.standby",
    "rate-limited": "vault.rate_limited",
    "broken": "vault.unreachable",
    "strange": VaultResponseMalformed.code,
    "garbage": VaultResponseMalformed.code,
    "huge": VaultResponseMalformed.code,
    "slow": "vault.unreachable",
    "hang-up": "vault.unreachable",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_v5_v8_every_fault_is_a_refusal_without_url_text_or_token(vault, authority, fault: str) -> None:
    token = vault.token()
    with source(vault, authority, VaultToken(token), timeout_s=0.3) as opened:
        vault.fault = fault
        with raises_code(FAULTS[fault]) as refusal:
            opened.resolve(WHERE)
        vault.fault = None
    shown = told(refusal.value)
    assert token not in shown
    assert vault.address not in shown
    assert "the server says" not in shown
    assert "hvs." not in shown
    retryable = ("vault.sealed", "vault.standby", "vault.rate_limited", "vault.unreachable")
    assert refusal.value.retryable == (FAULTS[fault] in retryable)


def test_v5_a_denial_says_no_token(vault, authority) -> None:
    with (
        source(vault, authority, VaultToken("hvs.wrong-token")) as opened,
        pytest.raises(VaultDenied) as refusal,
    ):
        opened.resolve(WHERE)
    assert "hvs.wrong" not in told(refusal.value)


def test_v9_a_deleted_or_destroyed_version_is_no_value(vault, authority) -> None:
    newest = vault.secrets["kv", "team/cloud"][-1]
    with source(vault, authority) as opened:
        newest.deleted = True
        with raises_code("vault.not_found", match="deleted"):
            opened.resolve(WHERE)
        newest.deleted, newest.destroyed = False, True
        with raises_code("vault.not_found", match="destroyed"):
            opened.resolve(WHERE)


@pytest.mark.parametrize(
    "where",
    [
        VaultReference("kv", "no/such", "token"),
        VaultReference("kv", "team/cloud", "other"),
        VaultReference("k", "a", "b"),
    ],
)
def test_what_is_not_there_is_not_found(vault, authority, where) -> None:
    with source(vault, authority) as opened, raises_code("vault.not_found"):
        opened.resolve(where)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("hunter2", SecretTooWeak.code),
        (VALUE + "\n", SecretValueInvalid.code),
        (12345678901234567890, "vault.not_found"),
        ({"a": VALUE}, "vault.not_found"),
        (None, "vault.not_found"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(vault, authority, value, code) -> None:
    vault.put("kv", "team/cloud", token=value)
    with source(vault, authority) as opened, raises_code(code) as refusal:
        opened.resolve(WHERE)
    assert VALUE not in told(refusal.value)


def test_a_login_is_made_once_and_its_token_revoked(vault, authority) -> None:
    vault.jwts["a.b.c"] = "agents"
    with source(vault, authority, VaultJWT("agents", "jwt", "a.b.c")) as opened:
        opened.resolve(WHERE)
        opened.resolve(WHERE)
        assert len(vault.tokens) == 1
    assert vault.tokens == {}
    assert [asked.path.rsplit("/", 1)[-1] for asked in vault.asked] == [
        "login",
        "cloud",
        "cloud",
        "revoke-self",
    ]


def test_v8_after_a_revocation_it_logs_in_once_more_then_fails(vault, authority) -> None:
    vault.jwts["a.b.c"] = "agents"
    with source(vault, authority, VaultJWT("agents", "jwt", "a.b.c")) as opened:
        opened.resolve(WHERE)
        vault.tokens.clear()
        assert opened.resolve(WHERE).version == "1"
        vault.tokens.clear()
        vault.jwts.clear()
        vault.asked.clear()
        with pytest.raises(VaultDenied) as refusal:
            opened.resolve(WHERE)
        assert [asked.path for asked in vault.asked] == ["/v1/kv/data/team/cloud", "/v1/auth/jwt/login"]
    assert "a.b.c" not in told(refusal.value)


def test_a_spent_token_is_denied_and_not_retried(vault, authority) -> None:
    with source(vault, authority, VaultToken(vault.token(uses=1))) as opened:
        opened.resolve(WHERE)
        vault.asked.clear()
        with pytest.raises(VaultDenied):
            opened.resolve(WHERE)
    assert len(vault.asked) == 1


def test_only_the_given_roots_count(vault, authority, tmp_path) -> None:
    other = Authority()
    for roots in ((), (other.pem,)):
        refused = VaultSource(vault.address, roots=roots, login=VaultToken(vault.token()))
        with contextlib.closing(refused), raises_code("vault.certificate"):
            refused.resolve(WHERE)
    with VaultServer(authority.leaf(tmp_path, "vault.example.test")) as misnamed:
        with source(misnamed, authority) as opened, raises_code("vault.certificate"):
            opened.resolve(WHERE)
    assert vault.asked == []


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:8200", "127.0.0.1:8200", "https://user:pass@vault", "https://vault/v1", "https://vault?x",
     "https://vault:8200/", "https://", "https://vault\n", "HTTPS://vault", "https://vault:123456"],
)  # fmt: skip
def test_an_address_is_a_plain_https_origin(authority, address: str) -> None:
    with raises_code("vault.address") as refusal:
        VaultSource(address, roots=(authority.pem,), login=VaultToken("hvs.x"))
    assert "pass" not in str(refusal.value)


@pytest.mark.parametrize(
    ("role", "mount"), [("../x", "jwt"), ("agents", "token/create"), ("", "jwt"), ("agents", "..")]
)
def test_a_role_and_a_mount_are_plain_segments(authority, role: str, mount: str) -> None:
    with raises_code("vault.path"):
        VaultSource("https://vault", roots=(authority.pem,), login=VaultJWT(role, mount, "a.b.c"))


def test_a_local_reference_is_not_vaults(vault, authority) -> None:
    with source(vault, authority) as opened, raises_code("secret.reference"):
        opened.resolve(LocalReference("A"))


def test_logins_show_nothing() -> None:
    assert "hvs" not in repr(VaultToken("hvs.x"))
    assert "a.b.c" not in repr(VaultJWT("agents", "jwt", "a.b.c"))


def test_a_vault_that_cannot_answer_is_asked_once(vault, authority) -> None:
    vault.fault = "sealed"
    grants = tuple(
        Grant(Binding(name, mint_placeholder(os.urandom), frozenset()), f"vault:kv/{name}#x")
        for name in "ABC"
    )
    settings = VaultSettings(vault.address, (authority.pem,))
    credential = os.memfd_create("token")
    os.write(credential, b"hvs.token")
    instants = Instants(time.monotonic, time.time, os.urandom)
    opened = open_session(Configuration(grants, vault=settings), (credential,), instants=instants)
    assert {error.code for error in opened.refused.values()} == {"vault.sealed"}
    assert len(opened.refused) == 3
    assert len(vault.asked) == 1


@pytest.mark.parametrize("uid", [None, pytest.param(64_123, marks=pytest.mark.root)])
def test_the_broker_resolves_from_vault_and_uses_the_value(
    harness, serve, vault, authority, tmp_path, monkeypatch: pytest.MonkeyPatch, uid: int | None
) -> None:
    if uid is not None and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    vault.jwts["a.b.c"] = "agents"
    server = serve(lambda received: answer(received.head))
    placeholder = mint_placeholder(os.urandom)
    binding = Binding("CLOUD", placeholder, frozenset({Endpoint("api.example.test", server.port)}))
    missing = Binding("MISSING", mint_placeholder(os.urandom), frozenset())
    credential = tmp_path / "jwt"
    credential.write_text("a.b.c\n")
    harness.uid, harness.own_process = uid, uid is not None

    async def configure(client: BrokerClient) -> None:
        descriptor = os.open(credential, os.O_RDONLY)
        try:
            harness.resolution = await client.configure(
                Configuration(
                    grants=(Grant(binding, str(WHERE)), Grant(missing, "vault:kv/no/such#x")),
                    roots=harness.roots,
                    vault=VaultSettings(vault.address, (authority.pem,), role="agents", mount="jwt"),
                ),
                vault_credential=descriptor,
            )
        finally:
            os.close(descriptor)

    monkeypatch.setattr(harness, "_configure", configure)

    async def scenario(client: BrokerClient) -> None:
        assert harness.resolution.resolved == {"CLOUD": "1"}
        refused: AffiantError = harness.resolution.refused["MISSING"]
        assert refused.code == "vault.not_found"
        header = (b"Authorization", b"Bearer " + placeholder.encode())
        request = request_to(server.port, header, uses=(("CLOUD", "header:authorization"),))
        assert placeholder.encode() in (await fetched(client, request)).body

    harness.run(scenario)
    assert server.received[0].header("authorization") == b"Bearer " + VALUE.encode()
    assert vault.tokens == {}, "the login was revoked once the values were there"
