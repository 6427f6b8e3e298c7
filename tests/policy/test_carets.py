"""Every refusal of a file points at the smallest piece at fault: the unknown key, the bad value, or what lacks a key.

Each row makes one fault in the example of FORMAT.md, and says what stands under the caret.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from affiant.errors import AffiantError
from affiant.policy.loading.all_errors import every_refusal
from affiant.policy.loading.load import load_baseline, load_profiles
from affiant.policy.testing.external_tests import read_external_tests

PAGE = (Path(__file__).parents[2] / "policy" / "FORMAT.md").read_text()
FOUND = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
EXAMPLE = FOUND.group(1) if FOUND else ""
FLOOR = "tools: [{deny: rm}]\n"
KEY = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"

# what stands in the example | what is put there | what the caret stands under: the first of its characters
FAULTS = [
    # the file
    ("version: 1 ", "version: 2 ", "2"),
    ("version: 1 ", "verson: 1 ", "verson"),
    ("version: 1 ", "version: one ", "one"),
    ("floor: org-floor.yaml", "floor: ../floor.yaml", "../floor"),
    ("  deployment_agent:", "  deployment agent:", "deployment agent"),
    ("    resources: {", "    resource: {", "resource"),
    ("    weight: 2 ", "    wieght: 2 ", "wieght"),
    ("    weight: 2 ", "    weight: 200 ", "200"),
    ("    weight: 2 ", "    weight: much ", "much"),
    ("priority: batch", "priority: urgent", "urgent"),
    ("priority: batch", "priority: [batch]", "[batch]"),
    ("    resources: {", "    tools: []\n    resources: {", "tools"),
    # tools
    ("- run_terraform  ", "- run terraform  ", "run terraform"),
    ("- run_terraform  ", "- [run_terraform]  ", "[run"),
    ("- run_terraform  ", "- {approval: true}  ", "{approval"),
    ("- name: kubectl_apply", "- name: kubectl apply", "kubectl apply"),
    ("server: k8s  ", "server: K8S  ", "K8S"),
    ("schema: sha256:721f", "schema: sha256:XX1f", "sha256:XX"),
    ("        approval: true", "        approval: yes", "yes"),
    ("        approval: true", "        aproval: true", "aproval"),
    ("rate: 10/min", "rate: 10/minute", "10/minute"),
    ("rate: 10/min", "rate: 9999999999999999/min", "9999"),
    ("bytes_out: 50MiB", "bytes_out: 999999999TiB", "9999"),
    ("{deny: kubectl_delete}", "{deny: kubectl delete}", "kubectl delete"),
    ("{deny: kubectl_delete}", "{deny: kubectl_delete, name: x}", "name: x"),
    ("{deny: kubectl_delete}", "{name: x, deny: kubectl_delete}", "name: x"),
    # arguments
    ("namespace: {one_of: [staging, dev]}", "name space: {one_of: [staging, dev]}", "name space"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {one_off: [staging, dev]}", "one_off"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {one_of: []}", "[]"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {one_of: staging}", "staging"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {one_of: [staging, [dev]]}", "[dev]"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {one_of: [a, 9007199254740993]}", "9007"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {const: 9007199254740993}", "9007"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {one_of: [staging], max_len: 5}", "max_len"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {one_of: [staging], write: true}", "write"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {write: true}", "{write"),
    ("namespace: {one_of: [staging, dev]}", "namespace: staging", "staging"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {max_len: 0}", "0"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {pattern: '[a-z'}", "'[a-z"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {max_len: 3, pattern: '[a-z'}", "'[a-z"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {pattern: '[a-z]*'}", "'[a-z]*"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {pattern: abcd, max_len: 3}", "3"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {pattern: '[a-z]+', max_len: 99999}", "99999"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {pattern: '(a?b?){255}'}", "'(a?b?"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {each: {pattern: '(a?b?){255}'}}", "'(a?b?"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {host: a b.com}", "a b.com"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {argv: [[ls], ps]}", "ps"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {argv: [[ls, '']]}", "''"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {argv: [[ls], []]}", "[]]"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {argv: []}", "[]"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {each: {max: 5}, max_items: 0}", "0"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {each: {argv: [[a]]}}", "argv"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {max: 5, max_items: 3}", "max_items"),
    ("namespace: {one_of: [staging, dev]}", "namespace: {each: {under: /w/../x}}", "/w/.."),
    ("file: {under: /workspace/infra}", "file: {under: workspace}", "workspace"),
    ("file: {under: /workspace/infra}", "file: {under: /workspace, write: 1}", "1"),
    ("{min: 1, max: 5, optional: true}", "{min: 6, max: 5, optional: true}", "5"),
    ("{min: 1, max: 5, optional: true}", "{min: one, max: 5, optional: true}", "one"),
    ("{min: 1, max: 5, optional: true}", "{min: 9007199254740993, optional: true}", "9007"),
    ("{min: 1, max: 5, optional: true}", "{min: 1, max: 5, optional: 1}", "1}"),
    # files
    ("- read:/workspace/infra  ", "- read:workspace/infra  ", "read:workspace"),
    ("- read:/workspace/infra  ", "- raed:/workspace/infra  ", "raed"),
    ("- read:/workspace/infra  ", "- read:/proc/self  ", "read:/proc"),
    ("{path: /workspace/infra/state, mode: none}", "{path: /a/*, mode: none}", "/a/*"),
    ("{path: /workspace/infra/state, mode: none}", "{path: /a, mode: nothing}", "nothing"),
    ("{path: /workspace/infra/state, mode: none}", "{path: /a}", "{path"),
    ("{path: /workspace/infra/state, mode: none}", "{mode: none}", "{mode"),
    # egress
    ("- host: api.example.com", "- host: api_example.com", "api_example"),
    ("- host: api.example.com", "- host: '*.com'", "'*.com"),
    ("- host: api.example.com", "- host: '*.example.com'", "10.20.0.0/16"),
    ("- host: api.example.com", "- hots: api.example.com", "hots"),
    ("port: 443  ", "port: 70000  ", "70000"),
    ("port: 443  ", "port: https  ", "https"),
    ("scheme: https  ", "scheme: htps  ", "htps"),
    ("methods: [GET, POST]  ", "methods: [GET, post]  ", "post"),
    ("methods: [GET, POST]  ", "methods: []  ", "[]"),
    ("methods: [GET, POST]  ", "methods: GET  ", "GET"),
    ('"/v1/acme/**", /health]', '"/v1/acme/**", /a/../b]', "/a/.."),
    ('"/v1/acme/**", /health]', '"/v1/*/x", /health]', '"/v1/*'),
    ("tls: inspect  ", "tls: inspct  ", "inspct"),
    ("tls: inspect  ", "tls: passthrough  ", "passthrough"),
    ("address: 10.20.0.0/16", "address: 10.20.0.1/16", "10.20"),
    ("address: 10.20.0.0/16", "address: [10.20.0.0/16, 169.254.0.0/16]", "169.254"),
    ("{requests: 60/min, bytes_out: 5MiB}", "{requests: 0, bytes_out: 5MiB}", "0"),
    ("{requests: 60/min, bytes_out: 5MiB}", "{request: 60/min}", "request"),
    ("{requests: 60/min, bytes_out: 5MiB}", "{}", "{}"),
    ("{deny: uploads.example.com, methods: [POST]}", "{deny: uploads_example.com}", "uploads_"),
    ("{deny: uploads.example.com, methods: [POST]}", "{deny: a.b.com, methods: [POST, TRACE]}", "TRACE"),
    ("{deny: uploads.example.com, methods: [POST]}", "{deny: a.b.com, paths: [x]}", "x]"),
    ("{deny: uploads.example.com, methods: [POST]}", "{deny: a.b.com, port: 0}", "0"),
    ("{deny: uploads.example.com, methods: [POST]}", "{deny: a.b.com, host: b.b.com}", "host"),
    ("{deny: uploads.example.com, methods: [POST]}", "'allowed:a_b.com'", "'allowed"),
    ("{deny: uploads.example.com, methods: [POST]}", "'allowed:a.b.com:99999'", "'allowed"),
    ("{deny: uploads.example.com, methods: [POST]}", "{host: api.example.com}", "{host"),
    # secrets
    ("- DEPLOY_KEY  ", "- DEPLOY KEY  ", "DEPLOY"),
    ("- DEPLOY_KEY  ", "- PATH  ", "PATH"),
    ("- DEPLOY_KEY  ", "- API_KEY  ", "name: API_KEY"),
    ("- name: API_KEY", "- name: API KEY", "API KEY"),
    ("- name: API_KEY", "- nmae: API_KEY", "nmae"),
    ("ref: vault:kv/team/api#key", "ref: vault:kv", "vault:kv"),
    ('hosts: ["api.example.com:443"]', 'hosts: ["api.example.com:443", "a_b.com"]', '"a_b'),
    ('hosts: ["api.example.com:443"]', 'hosts: ["api.example.com:443", "*.example.com"]', '"*'),
    ('hosts: ["api.example.com:443"]', 'hosts: ["api.example.com:99999"]', '"api'),
    ('hosts: ["api.example.com:443"]', f"hosts: [{', '.join(f'h{n}.b.com' for n in range(65))}]", "[h0"),
    ('{header: X-Api-Key, format: "{}"}', "{header: Host}", "Host"),
    ('{header: X-Api-Key, format: "{}"}', '{header: X-Api-Key, format: "{}{}"}', '"{}{}'),
    ('{header: X-Api-Key, format: "{}"}', "{header: X-Api-Key, query: key}", "query"),
    ('{header: X-Api-Key, format: "{}"}', '{query: key, format: "{}"}', "format"),
    ('{header: X-Api-Key, format: "{}"}', "{}", "{}"),
    ('{header: X-Api-Key, format: "{}"}', "{query: 'a b'}", "'a b"),
    ('{header: X-Api-Key, format: "{}"}', "{basic: 'a:b'}", "'a:b"),
    ('{header: X-Api-Key, format: "{}"}', "{body: {json: token}}", "token"),
    ('{header: X-Api-Key, format: "{}"}', "{body: {form: 'a b'}}", "'a b"),
    ('{header: X-Api-Key, format: "{}"}', "{body: {json: /a, form: b}}", "form"),
    ('{header: X-Api-Key, format: "{}"}', "{body: {}}", "{}}"),
    ("max_uses: 200", "max_uses: many", "many"),
    ('shape: "ghp_{36}"', 'shape: "ghp_{3}"', '"ghp'),
    # approvals
    ("egress: [POST]  ", "egress: [POST, post]  ", "post"),
    ("egress: [POST]  ", "tools: [run_terraform, kubectl_aply]  ", "kubectl_aply"),
    ("egress: [POST]  ", "egres: [POST]  ", "egres"),
    ("egress: [POST]  ", "everything: all  ", "all"),
    (f"approvers: [{KEY}]", "approvers: [short]", "short"),
    (f"approvers: [{KEY}]", "approvers: []", "[]"),
    (f"approvers: [{KEY}]", f"approvers: [{', '.join([KEY] * 17)}]", "[Nzb"),
    (f"approvers: [{KEY}]", "approvers: [{issuer: 'https://a.b'}]", "{issuer"),
    (f"approvers: [{KEY}]", "approvers: [{issuer: 'http://a.b', subject: a@b}]", "'http:"),
    (f"approvers: [{KEY}]", "approvers: [{issuer: 'https://a.b', subject: ab}]", "ab}"),
    (f"      approvers: [{KEY}]", "      # none", None),
    (f"approvers: [{KEY}]", f"approvers: [{KEY}]\n      trusted_root: ZZ", "ZZ"),
    ("quorum: 1  ", "quorum: 2  ", "2"),
    ("quorum: 1  ", "quorum: 0  ", "0"),
    ("ttl: 10m  ", "ttl: 10  ", "10"),
    ("ttl: 10m  ", "ttl: 10s  ", "10s"),
    # models, limits, resources
    ("[small-model, {", "[small model, {", "small model"),
    ("{name: big-model,", "{name: big model,", "big model"),
    ("{name: big-model,", "{nam: big-model,", "nam"),
    ("upstream: attested", "upstream: attestd", "attestd"),
    ("max_tokens: 4096", "max_tokens: 4096/h", "4096/h"),
    ("tool_calls: 500", "tool_calls: five", "five"),
    ("requests: [5/s, 120/min]", "requests: [5/s, 120/s]", "120/s"),
    ("requests: [5/s, 120/min]", "requests: [5/s, 120/sec]", "120/sec"),
    ("tokens: 2M/day", "tokens: 2m/day", "2m"),
    ("wall: 2h", "wall: 9999day", "9999day"),
    ("cpus: 2", "cpus: 0", "0"),
    ("memory: 2GiB", "memory: 2GB", "2GB"),
    ("disk: 4GiB", "disc: 4GiB", "disc"),
    ("pids: 256", "pids: 9999999", "9999999"),
    # tests
    ("- {allow: {tool: run_terraform}}", "- {alow: {tool: run_terraform}}", "alow"),
    ("- {allow: {tool: run_terraform}}", "- {allow: {tol: run_terraform}}", "tol"),
    ("- {allow: {tool: run_terraform}}", "- {allow: {tool: run_terraform}, deny: {tool: x}}", "deny"),
    ("- {allow: {tool: run_terraform}}", "- {allow: {tool: x, read: /a}}", "read"),
    ("- {allow: {tool: run_terraform}}", "- {allow: {tool: x, args: [1]}}", "[1]"),
    ("- {allow: {tool: run_terraform}}", "- {allow: {}}", "{}}"),
    ("- {allow: {tool: run_terraform}}", "- {allow: {tool: destroy}}", "destroy"),
    ("- {allow: {tool: run_terraform}}", "- {allow: {egress: GET api.example.com}}", "GET"),
    ("- {allow: {tool: run_terraform}}", "- {allow: {secret: A}}", "A}}"),
]  # fmt: skip


def _expected(old: str, new: str, under: str | None) -> tuple[str, str]:
    """The file with the fault, and the place of what is at fault; None: the key below that lacks another."""
    assert EXAMPLE.count(old) == 1, old
    text = EXAMPLE.replace(old, new)
    if under is None:
        at = text.index("quorum: 1")
    elif under in new:
        at = EXAMPLE.index(old) + new.index(under)
    else:
        at = text.index(under)
    return text, f"profiles.yaml:{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


@pytest.mark.parametrize(("old", "new", "under"), FAULTS)
def test_the_caret_stands_under_what_is_at_fault(old: str, new: str, under: str | None) -> None:
    text, place = _expected(old, new, under)
    with pytest.raises(AffiantError) as caught:
        load_profiles(text.encode(), floor=FLOOR.encode())
    error = caught.value
    assert error.where == place
    assert error.excerpt is not None
    shown = error.excerpt.text[error.excerpt.column - 1 :]
    assert shown.startswith(("***", "[***", (under or "quorum")[:3]))
    assert place in {
        each.where for each in every_refusal(text.encode(), source="profiles.yaml", floor=FLOOR.encode())
    }


@pytest.mark.parametrize(
    ("text", "under"),
    [
        ("tools: [{deny: rm}, cat]", "cat"),
        ("tools: [{deny: r m}]", "r m"),
        ("tool: [{deny: rm}]", "tool"),
        ("filesystem_access: ['read:/a']", "'read"),
        ("filesystem_access: [{path: /a, mode: read}]", "read"),
        ("network_egress: [{host: a.b.com}]", "{host"),
        ("network_egress: [{deny: a_b.com}]", "a_b"),
        ("requires_human_approval: {tools: [rm]}", "tools"),
        ("requires_human_approval: {egress: [POST], quorum: 1}", "quorum"),
        ("limits: {tokens: 0}", "0"),
        ("tools: []", "tools"),
    ],
)
def test_so_it_does_in_a_floor(text: str, under: str) -> None:
    with pytest.raises(AffiantError) as caught:
        load_baseline(text.encode(), source="floor.yaml")
    assert caught.value.where == f"floor.yaml:1:{text.index(under) + 1}"


@pytest.mark.parametrize(
    ("text", "under"),
    [
        ("tests: {dev: [{deny: {tool: rm}}, {dney: {tool: rm}}]}", "dney"),
        ("tests: {dve: [{deny: {tool: rm}}]}", "dve"),
        ("tests: {dev: {deny: {tool: rm}}}", "{deny"),
        ("tests: {dev: [{deny: {egress: POST a.b.com}}]}", "POST"),
        ("tests: {dev: [{deny: {tool: rm}, ask: {tool: x}}]}", "ask"),
        ("tests: {dev: []}", "{dev"),
        ("test: {dev: []}", "test"),
        ("{}", "{}"),
    ],
)
def test_so_it_does_in_a_file_of_tests(text: str, under: str) -> None:
    with pytest.raises(AffiantError) as caught:
        read_external_tests(text.encode(), source="t.yaml", agents=("dev",))
    assert caught.value.where == f"t.yaml:1:{text.index(under) + 1}"


@pytest.mark.parametrize(
    ("profile", "floor", "under"),
    [
        (f"{{everything: true, approvers: [{'A' * 43}]}}", "", "AAAA"),
        (f"{{everything: true, approvers: [{KEY}]}}", f", approvers: [{KEY}, {'A' * 43}], quorum: 2", "[Nzb"),
    ],
)
def test_what_does_not_fit_the_floor_is_shown_in_the_profile(profile: str, floor: str, under: str) -> None:
    text = f"floor: f.yaml\nagent_configs: {{dev: {{requires_human_approval: {profile}}}}}"
    given = f"requires_human_approval: {{everything: true{floor or f', approvers: [{KEY}]'}}}"
    with pytest.raises(AffiantError) as caught:
        load_profiles(text.encode(), floor=given.encode())
    line = text.splitlines()[1]
    assert caught.value.where == f"profiles.yaml:2:{line.index(under) + 1}"


@pytest.mark.parametrize(
    ("sections", "under"),
    [
        ("network_egress: [{host: a.b.com, tls: passthrough}], secrets_access: [{name: B, hosts: [a.b.com]}]", "{name"),
        ("network_egress: [{port: 443}]", "{port"),
        ("network_egress: [{host: a.b.com, scheme: http, tls: passthrough}]", "passthrough"),
        ("network_egress: [{host: a.b.com, tls: passthrough, limits: {requests: 5}}]", "passthrough"),
        ("filesystem_access: ['read:/a', {path: /b}, read]", "{path"),
        (f"tools: [{', '.join(f't{n}' for n in range(1025))}]", "[t0"),
        (f"network_egress: [{{host: a.b.com, paths: [{', '.join(f'/{n}' for n in range(1025))}]}}]", "[/0"),
    ],
)  # fmt: skip
def test_so_it_does_between_rules(sections: str, under: str) -> None:
    text = f"agent_configs: {{dev: {{{sections}}}}}"
    with pytest.raises(AffiantError) as caught:
        load_profiles(text.encode(), source="p.yaml")
    assert caught.value.where == f"p.yaml:1:{text.index(under) + 1}"
