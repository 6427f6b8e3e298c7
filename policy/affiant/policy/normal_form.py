"""The normal form: one sequence of bytes for one meaning, and the digest that sessions are bound to.

RFC 8785 JSON of a policy with every short form expanded, every default written out, every list sorted and
without repetitions, paths and hosts canonical, the floor merged in; no name of an agent, no place in a file.
The digest is ``SHA-384("affiant.policy/1\\n" || bytes)``. ``FORMAT.md`` specifies the members.

:func:`read_normal_form` accepts exactly the bytes that :func:`normal_form` writes for the policy it returns,
so that gateway and supervisor, who receive these bytes and not the YAML, recompute the digest from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeVar

from affiant.attestation.canonical import canonical, parse_object
from affiant.errors import AffiantError
from affiant.policy.profile import (
    Approval,
    EgressDenial,
    EgressRule,
    Endpoint,
    Injection,
    ModelRule,
    PathGrant,
    PathMode,
    Policy,
    Resources,
    Scheme,
    SecretGrant,
    TLSMode,
    ToolDenial,
    ToolRule,
)
from affiant.policy.refusals import NormalFormRefused

__all__ = [
    "SEMANTICS",
    "Rule",
    "arranged",
    "arranged_form",
    "arranged_rule",
    "normal_form",
    "policy_digest",
    "read_normal_form",
    "set_digest",
]

SEMANTICS: Final = "affiant.policy/1"
"""The version of the meaning; it is inside the bytes and in front of them."""

_MAX_BYTES: Final = 1 << 20

Rule = ToolRule | ToolDenial | PathGrant | EgressRule | EgressDenial | SecretGrant | ModelRule
_R = TypeVar("_R", bound=Rule)
_E = TypeVar("_E", bound=StrEnum)
_JSON = dict[str, object]


def normal_form(policy: Policy) -> bytes:
    """The RFC 8785 bytes of ``policy``."""
    return arranged_form(arranged(policy))


def arranged_form(policy: Policy) -> bytes:
    """:func:`normal_form` of a policy that :func:`arranged` returned."""
    return canonical(
        {
            "approval": {"everything": policy.approval.everything, "methods": policy.approval.methods},
            "egress": [_members(rule) for rule in policy.egress],
            "filesystem": [_members(rule) for rule in policy.filesystem],
            "floor": policy.floor,
            "models": None if policy.models is None else [_members(rule) for rule in policy.models],
            "resources": {
                "cpus": policy.resources.cpus,
                "disk": policy.resources.disk,
                "memory": policy.resources.memory,
                "pids": policy.resources.pids,
            },
            "secrets": [_members(rule) for rule in policy.secrets],
            "semantics": SEMANTICS,
            "tools": [_members(rule) for rule in policy.tools],
        }
    )


def policy_digest(form: bytes) -> str:
    """``sha384:<96 hex>`` of a normal form's bytes."""
    return "sha384:" + hashlib.sha384(SEMANTICS.encode("ascii") + b"\n" + form).hexdigest()


def set_digest(digests: Mapping[str, str]) -> str:
    """The digest of a file: of its profiles' names and digests, so that one profile can be shown alone."""
    return policy_digest(canonical({"profiles": digests, "semantics": SEMANTICS}))


def arranged(policy: Policy) -> Policy:
    """``policy`` with every list in the order of the normal form and without repetitions."""
    return Policy(
        tools=_arranged(policy.tools),
        filesystem=_arranged(policy.filesystem),
        egress=_arranged([_arranged_egress(rule) for rule in policy.egress]),
        secrets=_arranged([_arranged_secret(rule) for rule in policy.secrets]),
        models=None if policy.models is None else _arranged(policy.models),
        approval=Approval(policy.approval.everything, _texts(policy.approval.methods) or ()),
        resources=policy.resources,
        floor=policy.floor,
    )


def arranged_rule(rule: Rule) -> Rule:
    """``rule`` with its own lists in order: as it stands in the normal form."""
    match rule:
        case EgressRule() | EgressDenial():
            return _arranged_egress(rule)
        case SecretGrant():
            return _arranged_secret(rule)
        case _:
            return rule


def _arranged(rules: Sequence[_R]) -> tuple[_R, ...]:
    if len(rules) <= 1:
        return tuple(rules)
    return tuple(sorted(set(rules), key=lambda rule: canonical(_members(rule))))


def _arranged_egress(rule: EgressRule | EgressDenial) -> EgressRule | EgressDenial:
    methods, paths = _texts(rule.methods), _texts(rule.paths)
    if isinstance(rule, EgressDenial):
        return EgressDenial(rule.host, rule.port, methods, paths)
    return EgressRule(
        rule.host, rule.port, rule.scheme, methods, paths, rule.tls, tuple(sorted(set(rule.address)))
    )


def _arranged_secret(rule: SecretGrant) -> SecretGrant:
    return SecretGrant(rule.name, tuple(sorted(set(rule.hosts))), rule.ref, rule.inject, rule.shape)


def _texts(values: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(sorted(set(values)))


def _members(rule: Rule) -> _JSON:
    match rule:
        case ToolRule():
            return {"approval": rule.approval, "effect": "allow", "name": rule.name}
        case ToolDenial():
            return {"effect": "deny", "name": rule.name}
        case PathGrant():
            return {"mode": rule.mode.value, "path": rule.path}
        case EgressRule():
            return {
                "address": rule.address,
                "effect": "allow",
                "host": rule.host,
                "methods": rule.methods,
                "paths": rule.paths,
                "port": rule.port,
                "scheme": rule.scheme.value,
                "tls": rule.tls.value,
            }
        case EgressDenial():
            return {
                "effect": "deny",
                "host": rule.host,
                "methods": rule.methods,
                "paths": rule.paths,
                "port": rule.port,
            }
        case SecretGrant():
            return {
                "hosts": [{"host": host, "port": port} for host, port in rule.hosts],
                "inject": {"format": rule.inject.format, "header": rule.inject.header},
                "name": rule.name,
                "ref": rule.ref,
                "shape": rule.shape,
            }
        case ModelRule():
            return {"attested": rule.attested, "name": rule.name}


def read_normal_form(form: bytes) -> Policy:
    """The policy whose normal form is ``form``, byte for byte.

    Args:
        form: RFC 8785 JSON, at most 1 MiB.

    Raises:
        NormalFormRefused: not JSON, not canonical, another ``semantics``, a member too many or too few, a
            list that is not sorted, or a rule that no profile could hold.
    """
    try:
        policy = _read(_Object(parse_object(form, limit=_MAX_BYTES), "normal form"))
        again = normal_form(policy)
    except NormalFormRefused:
        raise
    except AffiantError as error:
        raise NormalFormRefused(f"not a normal form: {error}") from error
    if again != form:
        raise NormalFormRefused("not the normal form of its own meaning", hint="A list is not sorted")
    return policy


def _read(top: _Object) -> Policy:
    if top.text("semantics") != SEMANTICS:
        raise NormalFormRefused("another semantics", expected=SEMANTICS)
    return top.done(
        Policy(
            tools=tuple(_read_tool(rule) for rule in top.objects("tools")),
            filesystem=tuple(_read_path(rule) for rule in top.objects("filesystem")),
            egress=tuple(_read_egress(rule) for rule in top.objects("egress")),
            secrets=tuple(_read_secret(rule) for rule in top.objects("secrets")),
            models=(
                None if top.absent("models") else tuple(_read_model(rule) for rule in top.objects("models"))
            ),
            approval=_read_approval(top.object("approval")),
            resources=_read_resources(top.object("resources")),
            floor=top.text_or_none("floor"),
        )
    )


def _read_approval(approval: _Object) -> Approval:
    return approval.done(Approval(approval.boolean("everything"), approval.texts("methods")))


def _read_resources(resources: _Object) -> Resources:
    names = ("cpus", "memory", "disk", "pids")
    return resources.done(Resources(*(resources.integer_or_none(name) for name in names)))


def _read_tool(rule: _Object) -> ToolRule | ToolDenial:
    effect, name = rule.text("effect"), rule.text("name")
    read = ToolRule(name, rule.boolean("approval")) if effect == "allow" else ToolDenial(name)
    return rule.done(read)


def _read_path(rule: _Object) -> PathGrant:
    return rule.done(PathGrant(rule.text("path"), rule.choice("mode", PathMode)))


def _read_egress(rule: _Object) -> EgressRule | EgressDenial:
    host, methods, paths = rule.text("host"), rule.texts_or_none("methods"), rule.texts_or_none("paths")
    if rule.text("effect") != "allow":
        return rule.done(EgressDenial(host, rule.integer_or_none("port"), methods, paths))
    return rule.done(
        EgressRule(
            host,
            rule.integer("port"),
            rule.choice("scheme", Scheme),
            methods,
            paths,
            rule.choice("tls", TLSMode),
            rule.texts("address"),
        )
    )


def _read_secret(rule: _Object) -> SecretGrant:
    inject = rule.object("inject")
    injection = inject.done(Injection(inject.text("header"), inject.text_or_none("format")))
    hosts = tuple(
        host.done(Endpoint(host.text("host"), host.integer("port"))) for host in rule.objects("hosts")
    )
    return rule.done(
        SecretGrant(rule.text("name"), hosts, rule.text_or_none("ref"), injection, rule.text_or_none("shape"))
    )


def _read_model(rule: _Object) -> ModelRule:
    return rule.done(ModelRule(rule.text("name"), rule.boolean("attested")))


_T = TypeVar("_T")


class _Object:
    """One JSON object whose members are taken one by one, each with its type, until none is left."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise NormalFormRefused("not an object", where=where)
        self._left: _JSON = dict(value)
        self._where = where

    def _take(self, name: str, *types: type[_T]) -> _T:
        if name not in self._left:
            raise NormalFormRefused(f"member {name!r} is missing", where=self._where)
        value = self._left.pop(name)
        for wanted in types:
            if type(value) is wanted:  # exactly: a bool is no integer here
                return value
        raise NormalFormRefused(f"member {name!r} has another type", where=self._where)

    def text(self, name: str) -> str:
        return self._take(name, str)

    def boolean(self, name: str) -> bool:
        return self._take(name, bool)

    def integer(self, name: str) -> int:
        return self._take(name, int)

    def absent(self, name: str) -> bool:
        """Whether the member is null; takes it only then."""
        if self._left.get(name, 0) is not None:
            return False
        del self._left[name]
        return True

    def text_or_none(self, name: str) -> str | None:
        return None if self.absent(name) else self.text(name)

    def integer_or_none(self, name: str) -> int | None:
        return None if self.absent(name) else self.integer(name)

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._take(name, list)
        if any(type(value) is not str for value in values):
            raise NormalFormRefused(f"member {name!r} has another type", where=self._where)
        return tuple(values)

    def texts_or_none(self, name: str) -> tuple[str, ...] | None:
        return None if self.absent(name) else self.texts(name)

    def choice(self, name: str, kind: type[_E]) -> _E:
        value = self.text(name)
        if value not in {member.value for member in kind}:
            raise NormalFormRefused(f"member {name!r} has an unknown value", where=self._where)
        return kind(value)

    def object(self, name: str) -> _Object:
        return _Object(self._take(name, dict), f"{self._where}/{name}")

    def objects(self, name: str) -> tuple[_Object, ...]:
        values = self._take(name, list)
        return tuple(_Object(value, f"{self._where}/{name}/{i}") for i, value in enumerate(values))

    def done(self, read: _T) -> _T:
        """``read``, if every member was taken."""
        if self._left:
            raise NormalFormRefused(f"unknown member {min(self._left)!r}", where=self._where)
        return read
