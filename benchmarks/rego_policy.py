"""Profiles in Rego: one module over the normal form as data, built into a bundle. For the benchmark alone.

It says tools without arguments, models, paths, connections and requests of inspected hosts: what the benchmark asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from affiant.policy.canonical.targets import METHODS, decoded_path
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    Question,
    ToolQuestion,
)
from affiant.policy.model.profile import PathMode

MODULE: Final = """
package affiant

import rego.v1

default decision := "deny"

decision := "ask" if {
    matched
    not denied
    asks
}

decision := "allow" if {
    matched
    not denied
    not asks
}

matched if {
    input.action == "call_tool"
    some rule in data.policy.tools
    rule.effect == "allow"
    rule.name == input.name
}

denied if {
    input.action == "call_tool"
    some rule in data.policy.tools
    rule.effect == "deny"
    rule.name == input.name
}

asks if {
    input.action == "call_tool"
    some rule in data.policy.tools
    rule.effect == "allow"
    rule.name == input.name
    rule.approval
}

matched if {
    input.action == "use_model"
    some rule in data.policy.models
    rule.name == input.name
    not rule.attested
}

matched if {
    input.action == "use_path"
    some rule in data.policy.filesystem
    rule.mode in input.modes
    below(rule.path, input.path)
}

denied if {
    input.action == "use_path"
    some rule in data.policy.filesystem
    rule.mode == "none"
    below(rule.path, input.path)
}

below(entry, path) if entry == path

below(entry, path) if startswith(path, concat("", [entry, "/"]))

matched if {
    input.action == "connect"
    some rule in data.policy.egress
    reaches(rule)
}

denied if {
    input.action == "connect"
    some rule in data.policy.egress
    rule.effect == "deny"
    named(rule.host, input.host)
    rule.methods == null
    rule.paths == null
}

matched if {
    input.action == "request"
    input.method in data.methods
    some rule in data.policy.egress
    reaches(rule)
    uses(rule)
    covered(rule)
}

denied if {
    input.action == "request"
    some rule in data.policy.egress
    rule.effect == "deny"
    named(rule.host, input.host)
    uses(rule)
    touched(rule)
}

asks if {
    input.action == "request"
    input.method in data.policy.approval.methods
}

reaches(rule) if {
    rule.effect == "allow"
    rule.port == input.port
    rule.scheme == input.scheme
    named(rule.host, input.host)
}

named(pattern, host) if pattern == host

named(pattern, host) if {
    startswith(pattern, "**.")
    endswith(host, substring(pattern, 2, -1))
}

named(pattern, host) if {
    startswith(pattern, "*.")
    endswith(host, substring(pattern, 1, -1))
    count(split(host, ".")) == count(split(pattern, "."))
}

uses(rule) if rule.methods == null

uses(rule) if input.method in rule.methods

covered(rule) if rule.paths == null

covered(rule) if input.path in rule.paths

covered(rule) if {
    some path in rule.paths
    endswith(path, "/**")
    startswith(input.path, trim_suffix(path, "**"))
}

touched(rule) if covered(rule)

touched(rule) if {
    some path in rule.paths
    trim_right(trim_suffix(path, "**"), "/") == trim_right(input.path, "/")
}
"""


class RegoBundle:
    """The module, compiled with the normal form of one policy."""

    def __init__(self, normal_form: bytes) -> None:
        from regopy import Interpreter  # noqa: PLC0415 - an extra, absent on some machines

        self._interpreter = Interpreter()
        self._interpreter.add_module("affiant", MODULE)
        self._interpreter.add_data({"policy": json.loads(normal_form), "methods": sorted(METHODS)})
        self._bundle = self._interpreter.build("data.affiant.decision")
        if not self._bundle.ok():
            raise RuntimeError("the module does not compile")

    def call(self, question: Question) -> Callable[[], str]:
        """The query of one request, whose input is made before."""
        from regopy import Input  # noqa: PLC0415 - as above

        given = Input(_input(question))

        def query() -> str:
            self._interpreter.set_input(given)
            return str(self._interpreter.query_bundle(self._bundle).results[0].expressions[0])

        return query


def _input(question: Question) -> dict[str, Any]:
    match question:
        case ToolQuestion(name):
            return {"action": "call_tool", "name": name}
        case ModelQuestion(name):
            return {"action": "use_model", "name": name}
        case PathQuestion(path, mode):
            modes = ["read-write"] if mode is PathMode.READ_WRITE else ["read", "read-write"]
            return {"action": "use_path", "path": path, "modes": modes}
        case EgressQuestion(host, port, scheme, method, target):
            endpoint = {"host": host, "port": port, "scheme": scheme.value}
            if method is None:
                return {"action": "connect", **endpoint}
            return {"action": "request", **endpoint, "method": method, "path": decoded_path(target or "/")}
        case _:
            raise AssertionError(question)
