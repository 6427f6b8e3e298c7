"""Reads a normal form: exactly the bytes that ``digest.py`` writes for the same policy.

Gateway and supervisor receive these bytes and not the YAML, and recompute the digest from them. Every member
is taken by name and type; one too many or too few is refused, and so is any other layout or order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeVar

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.signatures.approvers.identities import ApproverIdentity
from affiant.errors import AffiantError
from affiant.policy.canonical.errors import NormalFormRefused
from affiant.policy.model.limits import NO_EGRESS_LIMITS, NO_LIMITS, Bound, Bounds, EgressLimits, Limits
from affiant.policy.model.profile import (
    Approval,
    EgressDenial,
    EgressRule,
    Endpoint,
    Injection,
    ModelRule,
    PathGrant,
    PathMode,
    Policy,
    PortDenial,
    PortGrant,
    ProviderTool,
    ProviderToolDenial,
    Resources,
    Scheme,
    SecretGrant,
    StartDenial,
    StartGrant,
    TLSMode,
    ToolDenial,
    ToolRule,
)
from affiant.policy.model.share import NO_SHARE, Priority, Share
from affiant.policy.model.sigv4 import SigV4
from affiant.policy.model.token_exchange import TokenExchange
from affiant.policy.normal_form.argument_members import read_argument_members
from affiant.policy.normal_form.digest import SEMANTICS, normal_form

__all__ = ["read_normal_form"]

_MAX_BYTES: Final = 1 << 20
_E = TypeVar("_E", bound=StrEnum)
_T = TypeVar("_T")


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
            limits=_read_limits(top.object("limits")) if top.has("limits") else NO_LIMITS,
            share=_read_share(top),
            provider_tools=tuple(_read_provider_tool(rule) for rule in top.objects("provider_tools"))
            if top.has("provider_tools")
            else (),
            may_start=tuple(_read_start(rule) for rule in top.objects("may_start"))
            if top.has("may_start")
            else (),
            ports=tuple(_read_port(rule) for rule in top.objects("ports")) if top.has("ports") else (),
        )
    )


def _read_approval(approval: _Object) -> Approval:
    everything, methods = approval.boolean("everything"), approval.texts("methods")
    if not approval.has("approvers"):
        return approval.done(Approval(everything, methods))
    keys, quorum, ttl = approval.texts("approvers"), approval.integer("quorum"), approval.integer("ttl")
    if not approval.has("identities"):
        return approval.done(Approval(everything, methods, keys, quorum, ttl))
    identities = tuple(
        each.done(ApproverIdentity(each.text("issuer"), each.text("subject")))
        for each in approval.objects("identities")
    )
    trusted_root = canonical(approval.members("trusted_root")).decode("utf-8")
    return approval.done(Approval(everything, methods, (*keys, *identities), quorum, ttl, trusted_root))


def _read_resources(resources: _Object) -> Resources:
    names = ("cpus", "memory", "disk", "pids")
    return resources.done(Resources(*(resources.integer_or_none(name) for name in names)))


def _read_tool(rule: _Object) -> ToolRule | ToolDenial:
    effect, name = rule.text("effect"), rule.text("name")
    if effect != "allow":
        return rule.done(ToolDenial(name))
    approval = rule.boolean("approval")
    arguments = read_argument_members(rule.members("args")) if rule.has("args") else None
    server, schema = (rule.text(pin) if rule.has(pin) else None for pin in ("server", "schema"))
    return rule.done(ToolRule(name, approval, arguments, server, schema, _read_bounds(rule, "rate")))


def _read_provider_tool(rule: _Object) -> ProviderTool | ProviderToolDenial:
    made = ProviderTool if rule.text("effect") == "allow" else ProviderToolDenial
    return rule.done(made(rule.text("name")))


def _read_start(rule: _Object) -> StartGrant | StartDenial:
    effect, agent = rule.text("effect"), rule.text("agent")
    if effect != "allow":
        return rule.done(StartDenial(agent))
    return rule.done(StartGrant(agent, rule.integer("at_most") if rule.has("at_most") else None))


def _read_port(rule: _Object) -> PortGrant | PortDenial:
    made = PortGrant if rule.text("effect") == "allow" else PortDenial
    return rule.done(made(rule.integer("first"), rule.integer("last")))


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
            _read_egress_limits(rule.object("limits")) if rule.has("limits") else NO_EGRESS_LIMITS,
        )
    )


def _read_bounds(found: _Object, name: str) -> Bounds:
    """The bounds of a member that stands only where there are some."""
    if not found.has(name):
        return ()
    return tuple(
        bound.done(Bound(bound.integer("most"), bound.integer_or_none("per")))
        for bound in found.objects(name)
    )


def _read_egress_limits(limits: _Object) -> EgressLimits:
    return limits.done(EgressLimits(_read_bounds(limits, "requests"), _read_bounds(limits, "bytes_out")))


def _read_limits(limits: _Object) -> Limits:
    return limits.done(
        Limits(
            tool_calls=_read_bounds(limits, "tool_calls"),
            requests=_read_bounds(limits, "requests"),
            tokens=_read_bounds(limits, "tokens"),
            bytes_out=_read_bounds(limits, "bytes_out"),
            wall=limits.integer("wall") if limits.has("wall") else None,
        )
    )


def _read_share(top: _Object) -> Share:
    weight = top.integer("weight") if top.has("weight") else NO_SHARE.weight
    return Share(weight, top.choice("priority", Priority) if top.has("priority") else NO_SHARE.priority)


def _read_secret(rule: _Object) -> SecretGrant:
    inject = rule.object("inject")
    if inject.has("query"):
        injection = inject.done(Injection(None, query=inject.text("query")))
    elif inject.has("body"):
        injection = inject.done(_read_body(inject.object("body")))
    elif inject.has("exchange"):
        injection = inject.done(_read_exchange(inject.object("exchange")))
    elif inject.has("sigv4"):
        injection = inject.done(_read_signing(inject.object("sigv4")))
    elif inject.has("basic"):
        injection = inject.done(Injection(user=inject.text("basic")))
    else:
        injection = inject.done(Injection(inject.text("header"), inject.text_or_none("format")))
    hosts = tuple(
        host.done(Endpoint(host.text("host"), host.integer("port"))) for host in rule.objects("hosts")
    )
    name, ref, shape = rule.text("name"), rule.text_or_none("ref"), rule.text_or_none("shape")
    max_uses = rule.integer("max_uses") if rule.has("max_uses") else None
    return rule.done(SecretGrant(name, hosts, ref, injection, shape, max_uses))


def _read_body(body: _Object) -> Injection:
    if body.has("form"):
        return body.done(Injection(None, form=body.text("form")))
    return body.done(Injection(None, json=body.text("json")))


def _read_exchange(exchange: _Object) -> Injection:
    return exchange.done(Injection.of_token(TokenExchange.of(exchange.every_text())))


def _read_signing(scope: _Object) -> Injection:
    return scope.done(Injection(None, sigv4=SigV4(scope.text("service"), scope.text("region"))))


def _read_model(rule: _Object) -> ModelRule:
    max_tokens = rule.integer("max_tokens") if rule.has("max_tokens") else None
    return rule.done(ModelRule(rule.text("name"), rule.boolean("attested"), max_tokens))


class _Object:
    """One JSON object whose members are taken one by one, each with its type, until none is left."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise NormalFormRefused("not an object", where=where)
        self._left: dict[str, object] = dict(value)
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

    def has(self, name: str) -> bool:
        return name in self._left

    def every_text(self) -> dict[str, str]:
        """All that is left, which must be text."""
        return {name: self.text(name) for name in sorted(self._left)}

    def members(self, name: str) -> dict[str, object]:
        return self._take(name, dict)

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
