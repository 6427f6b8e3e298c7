"""Warnings: each is given where it is due, and not elsewhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from affiant.policy.lint import WARNINGS, lint_profile
from affiant.policy.profile_set import Profile

Make = Callable[..., Profile]

CASES = [
    ("secrets_access: [A]", {"secret_no_sink"}),
    ("secrets_access: [{name: A, hosts: [a.b.com]}]", {"secret_unreachable_host"}),
    (
        "network_egress: [{host: a.b.com, paths: [/a]}], secrets_access: [{name: A, inject: {header: X-Key}}]",
        {"secret_storable_sink"},
    ),
    ("network_egress: 'allowed:a.b.com'", {"host_unrestricted"}),
    ("network_egress: [{host: a.b.com, methods: [GET]}]", set()),
    ("network_egress: [{host: x.s3.amazonaws.com, methods: [GET]}]", {"host_shared"}),
    ("network_egress: [{host: notamazonaws.com, methods: [GET]}]", set()),
    ("network_egress: [{host: '*.b.com', methods: [GET]}]", {"host_wildcard"}),
    ("network_egress: [{host: a.b.com, tls: passthrough}]", {"tls_passthrough"}),
    ("network_egress: [{host: a.b.com, scheme: http, methods: [GET]}]", {"scheme_http"}),
    ("filesystem_access: 'read-write:/workspace'", {"rw_hooks"}),
    ("filesystem_access: 'read:/workspace'", set()),
    ("filesystem_access: 'read-write:/usr/local/data'", {"rw_hooks", "rw_system_path"}),
    ("tools: [{deny: a}]", {"denial_without_allow"}),
    ("tools: [a, {deny: a}]", set()),
    ("requires_human_approval: true", {"approval_no_approver"}),
    ("tools: [{name: a, approval: true}]", {"approval_no_approver"}),
    ("requires_human_approval: {egress: [POST]}", {"approval_no_approver"}),
    ("", set()),
]


@pytest.mark.parametrize(("sections", "codes"), CASES)
def test_a_warning_is_given_where_it_is_due(profile_of: Make, sections: str, codes: set[str]) -> None:
    found = lint_profile(profile_of(sections))
    assert {warning.code for warning in found} == codes
    assert all(warning.where.startswith("profiles.yaml:1:") for warning in found)


def test_every_warning_is_tested_and_documented() -> None:
    page = (Path(__file__).parents[2] / "policy" / "FORMAT.md").read_text()
    assert set().union(*(codes for _, codes in CASES)) == set(WARNINGS)
    assert [code for code in WARNINGS if f"`{code}`" not in page] == []


def test_carve_outs_silence_the_hooks_they_cover(profile_of: Make) -> None:
    hooks = [".git", ".github", ".gitlab-ci.yml", ".envrc", ".vscode", ".husky"]
    masked = ", ".join(f"{{path: /w/{hook}, mode: none}}" for hook in hooks)
    assert lint_profile(profile_of(f"filesystem_access: ['read-write:/w', {masked}]")) == ()
