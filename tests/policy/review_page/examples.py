"""Files that the tests of the page review."""

from __future__ import annotations

OLD = """\
agent_configs:
  triage:
    tools: [read_issue, {name: label, args: {name: {one_of: [bug]}}}]
    filesystem_access: read:/workspace/docs
    network_egress: [{host: api.github.com, methods: [GET], paths: ["/repos/acme/shop/**"]}]
    secrets_access: [{name: READ_TOKEN, hosts: [api.github.com]}]
    models: [small]
  deployer:
    tools: [apply, {name: publish, approval: true}, {deny: shell}]
    filesystem_access: [read-write:/workspace/infra, none:/workspace/infra/state]
    network_egress: [{host: api.cloud.com}]
    secrets_access: [{name: DEPLOY_KEY, hosts: [api.cloud.com]}, {name: LOST, hosts: [x.other.com]}]
  gone:
    tools: [old_tool]
"""
NEW = """\
agent_configs:
  triage:
    tools: [read_issue, {name: label, args: {name: {one_of: [bug, wontfix]}}}]
    filesystem_access: read-write:/workspace/docs
    network_egress: [{host: api.github.com, methods: [GET, POST], paths: ["/repos/acme/**"]}]
    secrets_access: [{name: READ_TOKEN, hosts: [api.github.com]}]
    models: [small, {name: big, upstream: attested}]
  deployer:
    tools: [publish, {deny: shell}]
    filesystem_access: [read-write:/workspace/infra, none:/workspace/infra/state]
    network_egress: [{host: api.cloud.com, methods: [GET]}, {host: legacy.com, scheme: http}]
    secrets_access: [{name: DEPLOY_KEY, hosts: [api.cloud.com]}, {name: LOST, hosts: [x.other.com]}]
    resources: {cpus: 4}
"""


def many(agents: int, *, rules: int = 100) -> str:
    """A file of so many agents with so many rules each."""
    lines = ["agent_configs:"]
    for agent in range(agents):
        lines += [f"  team_{agent % 10}_with_a_long_name_of_agent_{agent}:", "    tools:"]
        lines += [f"      - tool_{(agent * 7 + at) % (rules * 2)}" for at in range(rules * 5 // 10)]
        lines += ["    filesystem_access:"]
        lines += [f"      - read:/workspace/{(agent + at) % 40}" for at in range(rules // 10)]
        lines += ["    network_egress:"]
        hosts = [f"h{(agent + at) % 40}.example.com" for at in range(rules * 3 // 10)]
        lines += [f"      - {{host: {host}, methods: [GET]}}" for host in hosts]
        lines += ["    secrets_access:"]
        lines += [f"      - {{name: KEY_{at}, hosts: [{hosts[at]}]}}" for at in range(rules // 10)]
    return "\n".join(lines) + "\n"
