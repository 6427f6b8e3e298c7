"""One function for each section of a profile: from nodes to rules, each with the place it was written at.

``floor`` is true while a floor is read: a section may then hold denials only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from affiant.policy import schema
from affiant.policy.addresses import parse_cidr
from affiant.policy.argument_reading import read_arguments
from affiant.policy.hosts import host_pattern, is_wildcard
from affiant.policy.limit_reading import read_egress_limits, read_max_tokens, read_max_uses, read_rate
from affiant.policy.limits import NO_EGRESS_LIMITS
from affiant.policy.profile import (
    EgressDenial,
    EgressRule,
    Endpoint,
    Injection,
    ModelRule,
    PathGrant,
    PathMode,
    Resources,
    Scheme,
    SecretGrant,
    TLSMode,
    ToolDenial,
    ToolRule,
)
from affiant.policy.refusals import FloorRefused, HostRefused, ValueRefused, WrongType, excerpt, located
from affiant.policy.strict_yaml import ListNode, MapNode, Mark, Node, ScalarNode

__all__ = [
    "https_endpoints",
    "read_egress",
    "read_filesystem",
    "read_models",
    "read_resources",
    "read_secrets",
    "read_tools",
]

_MODES: Final = {
    "none": PathMode.NONE,
    "read": PathMode.READ,
    "read-only": PathMode.READ,
    "read-write": PathMode.READ_WRITE,
}

_DEFAULT_PORT: Final = {Scheme.HTTPS: 443, Scheme.HTTP: 80}

_R = TypeVar("_R", bound=ToolRule | ToolDenial | EgressRule | EgressDenial)


def read_tools(node: Node, *, floor: bool = False) -> Iterator[tuple[ToolRule | ToolDenial, Mark]]:
    """``tools``: a list of names, ``{name, server, schema, approval, args, rate}`` and ``{deny}``."""
    for item in schema.items(node, what="'tools'"):
        with located(item.mark):
            yield _denials_only(_tool(item), floor=floor), item.mark


def _tool(item: Node) -> ToolRule | ToolDenial:
    if isinstance(item, ScalarNode):
        return ToolRule(schema.text(item, what="a tool"))
    known = ("name", "server", "schema", "approval", "args", "rate", "deny")
    found = schema.keys(item, known, what="a tool")
    if "deny" in found:
        _alone(found, "deny", item)
        return ToolDenial(schema.text(found["deny"], what="'deny'"))
    name = schema.text(schema.required(found, "name", item, what="a tool"), what="'name'")
    approval = "approval" in found and schema.boolean(found["approval"], what="'approval'")
    arguments = read_arguments(found["args"]) if "args" in found else None
    pins = _maybe_text(found, "server"), _maybe_text(found, "schema")
    return ToolRule(name, approval, arguments, *pins, read_rate(found["rate"]) if "rate" in found else ())


def read_filesystem(node: Node, *, floor: bool = False) -> Iterator[tuple[PathGrant, Mark]]:
    """``filesystem_access``: ``none``, ``mode:/path``, or a list of that and of ``{path, mode}``."""
    if isinstance(node, ScalarNode) and node.text in ("none", "denied"):
        return
    for item in _entries(node):
        with located(item.mark):
            grant = _path(item)
            if floor and grant.mode is not PathMode.NONE:
                raise FloorRefused(
                    "a floor holds denials only", expected="mode: none", found=grant.mode.value
                )
            yield grant, item.mark


def _path(item: Node) -> PathGrant:
    if isinstance(item, ScalarNode):
        mode, colon, path = schema.text(item, what="'filesystem_access'").partition(":")
        if not colon:
            raise WrongType(
                "not a path with its mode", expected="such as read-only:/var/log", found=excerpt(mode)
            )
        return PathGrant(path, _mode(mode, item.mark))
    found = schema.keys(item, ("path", "mode"), what="a path")
    path = schema.text(schema.required(found, "path", item, what="a path"), what="'path'")
    mode_node = schema.required(found, "mode", item, what="a path")
    return PathGrant(path, _mode(schema.text(mode_node, what="'mode'"), mode_node.mark))


def _mode(word: str, mark: Mark) -> PathMode:
    return _MODES[schema.one_of(ScalarNode(word, plain=True, mark=mark), _MODES, what="a path's mode")]


def read_egress(node: Node, *, floor: bool = False) -> Iterator[tuple[EgressRule | EgressDenial, Mark]]:
    """``network_egress``: ``denied``, ``allowed:host[:port]``, or a list of that, of hosts and of denials."""
    if isinstance(node, ScalarNode) and node.text == "denied":
        return
    for item in _entries(node):
        with located(item.mark):
            yield _denials_only(_egress(item), floor=floor), item.mark


def _egress(item: Node) -> EgressRule | EgressDenial:
    if isinstance(item, ScalarNode):
        return _short_egress(schema.text(item, what="'network_egress'"))
    if isinstance(item, MapNode) and any(member.key.text == "deny" for member in item.members):
        return _egress_denial(item)
    known = ("host", "port", "scheme", "methods", "paths", "tls", "address", "limits")
    found = schema.keys(item, known, what="an egress rule", later=("rate", "approval"))
    scheme = Scheme(_choice(found, "scheme", [word.value for word in Scheme], Scheme.HTTPS.value))
    address = tuple(_addresses(found["address"])) if "address" in found else ()
    host = schema.text(schema.required(found, "host", item, what="an egress rule"), what="'host'")
    port = schema.whole_number(found["port"], what="'port'") if "port" in found else _DEFAULT_PORT[scheme]
    return EgressRule(
        host=host_pattern(host, single_label=bool(address)),
        port=port,
        scheme=scheme,
        methods=_maybe_texts(found, "methods"),
        paths=_maybe_texts(found, "paths"),
        tls=TLSMode(_choice(found, "tls", [word.value for word in TLSMode], TLSMode.INSPECT.value)),
        address=address,
        limits=read_egress_limits(found["limits"]) if "limits" in found else NO_EGRESS_LIMITS,
    )


def _short_egress(text: str) -> EgressRule:
    word, colon, rest = text.partition(":")
    if word != "allowed" or not colon or not rest:
        raise WrongType(
            "not an egress rule",
            expected="denied (alone), allowed:host[:port], or a mapping with 'host' or 'deny'",
            found=excerpt(text),
        )
    if rest.startswith("*"):
        raise HostRefused(
            "a wildcard needs the long form", found=excerpt(rest), hint="Write it as {host: '*.example.com'}"
        )
    return EgressRule(*_endpoint(rest))


def _endpoint(text: str) -> Endpoint:
    """``host[:port]``; the port defaults to 443."""
    host, colon, port = text.partition(":")
    if colon and not (port.isascii() and port.isdigit() and port[0] != "0" and len(port) <= 5):
        raise ValueRefused("not a host and a port", expected="host or host:port", found=excerpt(text))
    return Endpoint(host_pattern(host, single_label=True), int(port) if colon else 443)


def _egress_denial(item: MapNode) -> EgressDenial:
    found = schema.keys(item, ("deny", "port", "methods", "paths"), what="an egress denial")
    host = schema.text(found["deny"], what="'deny'")
    return EgressDenial(
        host=host_pattern(host, single_label=True),
        port=schema.whole_number(found["port"], what="'port'") if "port" in found else None,
        methods=_maybe_texts(found, "methods"),
        paths=_maybe_texts(found, "paths"),
    )


def _addresses(node: Node) -> Iterator[str]:
    values: Iterable[str]
    if isinstance(node, ListNode):
        values = schema.texts(node, what="'address'")
    else:
        values = schema.text(node, what="'address'").split(",")
    for value in values:
        yield str(parse_cidr(value.strip(" ")))


def read_secrets(node: Node, *, sinks: tuple[Endpoint, ...]) -> Iterator[tuple[SecretGrant, Mark]]:
    """``secrets_access``: a list of names and ``{name, ref, hosts, inject, shape, max_uses}``.

    Args:
        sinks: the https endpoints of the profile, at which a secret without ``hosts`` may be used.
    """
    for item in schema.items(node, what="'secrets_access'"):
        with located(item.mark):
            yield _secret(item, sinks), item.mark


def _secret(item: Node, sinks: tuple[Endpoint, ...]) -> SecretGrant:
    if isinstance(item, ScalarNode):
        return SecretGrant(schema.text(item, what="a secret"), sinks)
    known = ("name", "ref", "hosts", "inject", "shape", "max_uses")
    found = schema.keys(item, known, what="a secret")
    hosts = sinks
    if "hosts" in found:
        hosts = tuple(_endpoint(text) for text in schema.texts(found["hosts"], what="'hosts'"))
    return SecretGrant(
        name=schema.text(schema.required(found, "name", item, what="a secret"), what="'name'"),
        hosts=hosts,
        ref=_maybe_text(found, "ref"),
        inject=_injection(found["inject"]) if "inject" in found else Injection(),
        shape=_maybe_text(found, "shape"),
        max_uses=read_max_uses(found["max_uses"]) if "max_uses" in found else None,
    )


def _injection(node: Node) -> Injection:
    later = ("sigv4", "exchange")
    found = schema.keys(node, ("header", "format", "basic", "query", "body"), what="'inject'", later=later)
    places = [key for key in ("header", "basic", "query", "body") if key in found]
    if len(places) != 1 or ("format" in found and places != ["header"]):
        expected = "header and perhaps format, or basic, or query, or body"
        raise WrongType("not one place", expected=expected, where=str(node.mark))
    if "body" in found:
        return _body_injection(found["body"])
    if "basic" in found:
        return Injection(user=schema.text(found["basic"], what="'basic'"))
    if "query" in found:
        return Injection(None, query=schema.text(found["query"], what="'query'"))
    header = schema.text(schema.required(found, "header", node, what="'inject'"), what="'header'").lower()
    template = _maybe_text(found, "format")
    return Injection(header, "{}" if template is None and header != "authorization" else template)


def _body_injection(node: Node) -> Injection:
    found = schema.keys(node, ("json", "form"), what="'body'")
    if len(found) != 1:
        raise WrongType("not one place of a body", expected="json or form", where=str(node.mark))
    if "json" in found:
        return Injection(None, json=schema.text(found["json"], what="'json'"))
    return Injection(None, form=schema.text(found["form"], what="'form'"))


def https_endpoints(rules: Iterable[EgressRule | EgressDenial]) -> tuple[Endpoint, ...]:
    """The endpoints at which a secret without ``hosts`` may be used: named in full, inspected, over TLS."""
    return tuple(
        Endpoint(rule.host, rule.port)
        for rule in rules
        if isinstance(rule, EgressRule)
        and rule.scheme is Scheme.HTTPS
        and rule.tls is TLSMode.INSPECT
        and not is_wildcard(rule.host)
    )


def read_models(node: Node) -> Iterator[tuple[ModelRule, Mark]]:
    """``models``: a list of names and ``{name, upstream, max_tokens}``; an empty list means none."""
    for item in schema.items(node, what="'models'"):
        with located(item.mark):
            yield _model(item), item.mark


def _model(item: Node) -> ModelRule:
    if isinstance(item, ScalarNode):
        return ModelRule(schema.text(item, what="a model"))
    found = schema.keys(item, ("name", "upstream", "max_tokens"), what="a model")
    name = schema.text(schema.required(found, "name", item, what="a model"), what="'name'")
    attested = _choice(found, "upstream", ("any", "attested"), "any") == "attested"
    return ModelRule(name, attested, read_max_tokens(found["max_tokens"]) if "max_tokens" in found else None)


def read_resources(node: Node) -> Resources:
    """``resources``: ``cpus`` and ``pids`` as numbers, ``memory`` and ``disk`` as sizes."""
    readers: Mapping[str, Callable[..., int]] = {
        "cpus": schema.whole_number,
        "memory": schema.size,
        "disk": schema.size,
        "pids": schema.whole_number,
    }
    found = schema.keys(node, readers, what="'resources'")
    return Resources(**{name: readers[name](value, what=f"'{name}'") for name, value in found.items()})


def _entries(node: Node) -> tuple[Node, ...]:
    """A list's entries; a single value is a list of one."""
    return node.items if isinstance(node, ListNode) else (node,)


def _denials_only(rule: _R, *, floor: bool) -> _R:
    if floor and isinstance(rule, (ToolRule, EgressRule)):
        raise FloorRefused("a floor holds denials only", hint="Write {deny: ...}")
    return rule


def _alone(found: Mapping[str, Node], name: str, node: Node) -> None:
    if len(found) > 1:
        raise WrongType(f"{name!r} stands alone in its mapping", where=str(node.mark))


def _choice(found: Mapping[str, Node], name: str, choices: Iterable[str], default: str) -> str:
    return schema.one_of(found[name], tuple(choices), what=f"'{name}'") if name in found else default


def _maybe_text(found: Mapping[str, Node], name: str) -> str | None:
    return schema.text(found[name], what=f"'{name}'") if name in found else None


def _maybe_texts(found: Mapping[str, Node], name: str) -> tuple[str, ...] | None:
    return schema.texts(found[name], what=f"'{name}'") if name in found else None
