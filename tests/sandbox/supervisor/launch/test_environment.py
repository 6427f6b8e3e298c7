"""The agent's environment: exactly what the wire specification lists."""

from __future__ import annotations

import pytest
from tests.raising import raises_code

from affiant.policy.loading.load import load_profiles
from affiant.sandbox.isolation.plan.plan import HostUsr, Limits
from affiant.sandbox.supervisor.launch.environment import (
    agent_environment,
    require_user_variables,
    session_sandbox,
)

TRACE = f"00-{'1' * 32}-{'2' * 16}-01"


def environment(user=None, *, placeholders=None, with_runtime=False):
    return agent_environment(
        proxy_url="http://10.0.0.1:3128", placeholders=placeholders or {}, traceparent=TRACE,
        with_runtime=with_runtime, user=user or {},
    )  # fmt: skip


def test_everything_points_at_the_proxy_and_its_gateway() -> None:
    found = environment(placeholders={"GITHUB_TOKEN": "affiant-ph-x"})
    assert {found[name] for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")} == {
        "http://10.0.0.1:3128"
    }
    assert found["NO_PROXY"] == found["no_proxy"] == ""
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"):
        assert found[name].startswith("/etc/")
    assert found["OPENAI_BASE_URL"] == "http://gateway.affiant.internal/v1"
    assert found["ANTHROPIC_BASE_URL"] == "http://gateway.affiant.internal"  # its clients add /v1
    assert found["OPENAI_API_KEY"] == found["ANTHROPIC_API_KEY"] == "affiant-session"
    assert found["NODE_USE_ENV_PROXY"] == found["OPENAI_AGENTS_DISABLE_TRACING"] == "1"
    assert found["TRACEPARENT"] == TRACE
    assert found["GITHUB_TOKEN"] == "affiant-ph-x"


def test_nothing_of_the_machines_environment_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert "AWS_SECRET_ACCESS_KEY" not in environment()


@pytest.mark.parametrize(
    "name",
    [
        *("HTTP_PROXY", "no_proxy", "SSL_CERT_FILE", "OPENAI_API_KEY", "OPENAI_BASE_URL", "TOKEN"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    ],
)
def test_the_user_does_not_set_what_the_supervisor_sets(name: str) -> None:
    with raises_code("session.environment"):
        environment({name: "x"}, placeholders={"TOKEN": "affiant-ph-x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("A-B", "x"), ("", "x"), ("1A", "x"), ("A=B", "x"), ("A", "x\0"), ("TRACEPARENT", "x")],
)
def test_what_is_no_variable_is_refused(name: str, value: str) -> None:
    with raises_code("session.environment"):
        environment({name: value})


def test_what_the_supervisor_always_sets_is_known_before_anything_starts() -> None:
    placeholders = {"TOKEN": "p"}
    made = environment(placeholders=placeholders)
    free = {"PATH", "HOME", "LANG", "TRACEPARENT"}
    for name in set(made) - set(placeholders) - free:
        with raises_code("session.environment"):
            require_user_variables({name: "x"})
    require_user_variables(dict.fromkeys(free - {"TRACEPARENT"}, "x"))


def test_the_user_may_add_and_choose_the_path() -> None:
    found = environment({"PATH": "/x", "MODE": "test"}, with_runtime=True)
    assert (found["PATH"], found["MODE"]) == ("/x", "test")
    assert environment(with_runtime=True)["PATH"].startswith("/opt/runtime/bin:")


@pytest.mark.parametrize(("resources", "disk"), [("{}", None), ("{disk: 64MiB}", 64 << 20)])
def test_disk_bounds_the_workspace_as_it_does_the_scratch_space(resources: str, disk: int | None) -> None:
    file = f"agent_configs:\n  dev:\n    tools: []\n    resources: {resources}\n"
    policy = load_profiles(file.encode()).profile("dev").compiled
    limits = session_sandbox(policy, session="s", rootfs=HostUsr(), runtime=None).limits
    assert limits.files_bytes == (disk or Limits().files_bytes)
    assert limits.tmp_bytes == (disk or Limits().tmp_bytes)
