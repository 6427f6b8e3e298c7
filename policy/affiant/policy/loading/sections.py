"""Reads each section of a profile from YAML nodes: one function for each, which returns rules with their places.

``floor`` is true while a baseline policy is read: a section may then hold only denials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from affiant.errors import ConfigurationError
from affiant.policy.canonical.addresses import parse_cidr
from affiant.policy.canonical.errors import (
    HostRefused,
    ValueRefused,
    WrongType,
    excerpt,
    located,
)
from affiant.policy.canonical.hosts import host_pattern, is_wildcard
from affiant.policy.canonical.names import (
    check_agent_name,
    check_basic_user,
    check_format,
    check_header,
    check_methods,
    check_model_name,
    check_parameter,
    check_port,
    check_reference,
    check_schema_pin,
    check_secret_name,
    check_server,
    check_shape,
    check_tool_name,
)
from affiant.policy.canonical.request_names import check_aws_name, check_pointer
from affiant.policy.canonical.strict_yaml import ListNode, MapNode, Mark, Node, ScalarNode
from affiant.policy.canonical.targets import path_pattern
from affiant.policy.loading.limit_reading import (
    read_at_most,
    read_egress_limits,
    read_max_tokens,
    read_max_uses,
    read_rate,
)
from affiant.policy.loading.token_exchange_reading import read_token_exchange
from affiant.policy.model.limits import NO_EGRESS_LIMITS
from affiant.policy.model.profile import (
    EgressDenial,
    EgressRule,
    Endpoint,
    Injection,
    ModelRule,
    PathGrant,
    PathMode,
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
    check_entries,
    check_sink,
)
from affiant.policy.model.sigv4 import SigV4
from affiant.policy.normal_form import schema
from affiant.policy.normal_form.argument_reading import read_arguments

__all__ = [
    "PORT_RANGE",
    "https_endpoints",
    "read_egress",
    "read_filesystem",
    "read_models",
    "read_ports",
    "read_provider_tools",
    "read_resources",
    "read_secrets",
    "read_starts",
    "read_tools",
]

_MODES: Final = {
    "none": PathMode.NONE,
    "read": PathMode.READ,
    "read-only": PathMode.READ,
    "read-write": PathMode.READ_WRITE,
}

_DEFAULT_PORT: Final = {Scheme.HTTPS: 443, Scheme.HTTP: 80}

PORT_RANGE: Final = re.compile(r"([1-9][0-9]{0,4})-([1-9][0-9]{0,4})\Z")
_R = TypeVar(
    "_R",
    bound=ToolRule
    | ToolDenial
    | ProviderTool
    | ProviderToolDenial
    | EgressRule
    | EgressDenial
    | PortGrant
    | PortDenial
    | StartGrant
    | StartDenial,
)


def read_tools(node: Node, *, floor: bool = False) -> Iterator[tuple[ToolRule | ToolDenial, Mark]]:
    """``tools``: a list of names, ``{name, server, schema, approval, args, rate}`` and ``{deny}``."""
    for item in schema.items(node, what="'tools'"):
        with located(item.mark):
            yield _denials_only(_tool(item), floor=floor), item.mark


def _tool(item: Node) -> ToolRule | ToolDenial:
    if isinstance(item, ScalarNode):
        return ToolRule(schema.text(item, what="a tool"))
    found = schema.keys(item, what="a tool")
    if "deny" in found:
        _alone(item, "deny")
        return ToolDenial(schema.checked(found["deny"], check_tool_name, what="'deny'"))
    named = schema.required(found, "name", item, what="a tool")
    name = schema.checked(named, check_tool_name, what="'name'")
    approval = "approval" in found and schema.boolean(found["approval"], what="'approval'")
    arguments = read_arguments(found["args"]) if "args" in found else None
    pins = _maybe_checked(found, "server", check_server), _maybe_checked(found, "schema", check_schema_pin)
    rate = read_rate(found["rate"]) if "rate" in found else ()
    with located(found.get("args", item).mark):  # that there are too many is all that is left
        return ToolRule(name, approval, arguments, *pins, rate)


def read_provider_tools(
    node: Node, *, floor: bool = False
) -> Iterator[tuple[ProviderTool | ProviderToolDenial, Mark]]:
    """``provider_tools``: a list of names and ``{deny}``."""
    for item in schema.items(node, what="'provider_tools'"):
        with located(item.mark):
            yield _denials_only(_provider_tool(item), floor=floor), item.mark


def _provider_tool(item: Node) -> ProviderTool | ProviderToolDenial:
    if isinstance(item, ScalarNode):
        return ProviderTool(schema.text(item, what="a provider tool"))
    found = schema.keys(item, what="a provider tool")
    denied = schema.required(found, "deny", item, what="a provider tool")
    return ProviderToolDenial(schema.checked(denied, check_tool_name, what="'deny'"))


def read_ports(node: Node, *, floor: bool = False) -> Iterator[tuple[PortGrant | PortDenial, Mark]]:
    """``ports``: a list of ports, of ranges (``8000-8010``) and of ``{deny}`` with either."""
    for item in schema.items(node, what="'ports'"):
        with located(item.mark):
            yield _denials_only(_port_rule(item), floor=floor), item.mark


def _port_rule(item: Node) -> PortGrant | PortDenial:
    if isinstance(item, ScalarNode):
        return PortGrant(*_port_range(item))
    denied = schema.required(schema.keys(item, what="a port"), "deny", item, what="a port")
    with located(denied.mark):
        return PortDenial(*_port_range(denied))


def _port_range(node: Node) -> tuple[int, int]:
    match = PORT_RANGE.match(node.text) if isinstance(node, ScalarNode) else None
    if match is not None:
        return int(match[1]), int(match[2])
    port = schema.whole_number(node, what="a port, or a range such as 8000-8010")
    return port, port


def read_starts(node: Node, *, floor: bool = False) -> Iterator[tuple[StartGrant | StartDenial, Mark]]:
    """``may_start``: a list of agents, ``{agent, at_most}`` and ``{deny}``."""
    for item in schema.items(node, what="'may_start'"):
        with located(item.mark):
            yield _denials_only(_start(item), floor=floor), item.mark


def _start(item: Node) -> StartGrant | StartDenial:
    if isinstance(item, ScalarNode):
        return StartGrant(schema.text(item, what="an agent to start"))
    found = schema.keys(item, what="an agent to start")
    if "deny" in found:
        _alone(item, "deny")
        return StartDenial(schema.checked(found["deny"], check_agent_name, what="'deny'"))
    named = schema.required(found, "agent", item, what="an agent to start")
    agent = schema.checked(named, check_agent_name, what="'agent'")
    return StartGrant(agent, read_at_most(found["at_most"]) if "at_most" in found else None)


def read_filesystem(node: Node, *, floor: bool = False) -> Iterator[tuple[PathGrant, Mark]]:
    """``filesystem_access``: ``none``, ``mode:/path``, or a list of that and of ``{path, mode}``."""
    if isinstance(node, ScalarNode) and node.text in ("none", "denied"):
        return
    for item in _entries(node):
        with located(item.mark):
            grant = _path(item)
            if floor and grant.mode is not PathMode.NONE:
                raise ConfigurationError(
                    "a baseline policy may hold only denials",
                    code="policy.floor",
                    expected="mode: none",
                    found=grant.mode.value,
                    where=str(_mode_of(item).mark),
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
    found = schema.keys(item, what="a path")
    place = schema.required(found, "path", item, what="a path")
    chosen = schema.required(found, "mode", item, what="a path")
    mode = _mode(schema.text(chosen, what="'mode'"), chosen.mark)
    with located(place.mark):
        return PathGrant(schema.text(place, what="'path'"), mode)


def _mode_of(item: Node) -> Node:
    """The mode of a path: of ``mode:/path``, all of it."""
    members = item.members if isinstance(item, MapNode) else ()
    return next((member.value for member in members if member.key.text == "mode"), item)


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
    found = schema.keys(item, what="an egress rule", later=("rate", "approval"))
    scheme = Scheme(_choice(found, "scheme", [word.value for word in Scheme], Scheme.HTTPS.value))
    address = tuple(_addresses(found["address"])) if "address" in found else ()
    host = _host(schema.required(found, "host", item, what="an egress rule"), "host", alone=bool(address))
    with schema.at_member(found, item):
        return EgressRule(
            host=host,
            port=_port(found["port"]) if "port" in found else _DEFAULT_PORT[scheme],
            scheme=scheme,
            methods=_methods(found),
            paths=_maybe_list(found, "paths", path_pattern),
            tls=TLSMode(_choice(found, "tls", [word.value for word in TLSMode], TLSMode.INSPECT.value)),
            address=address,
            limits=read_egress_limits(found["limits"]) if "limits" in found else NO_EGRESS_LIMITS,
        )


def _host(node: Node, key: str, *, alone: bool) -> str:
    """A canonical pattern; ``alone``: of one label too."""
    with located(node.mark):
        return host_pattern(schema.text(node, what=f"'{key}'"), single_label=alone)


def _port(node: Node) -> int:
    port = schema.whole_number(node, what="'port'")
    with located(node.mark):
        check_port(port)
    return port


def _methods(found: Mapping[str, Node]) -> tuple[str, ...] | None:
    return _maybe_list(found, "methods", lambda method: check_methods((method,)))


def _short_egress(text: str) -> EgressRule:
    word, colon, rest = text.partition(":")
    if word != "allowed" or not colon or not rest:
        raise WrongType(
            "not an egress rule",
            expected="'denied' as the only entry, allowed:host[:port], or a mapping with 'host' or 'deny'",
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
    found = schema.keys(item, what="an egress denial")
    return EgressDenial(
        host=_host(found["deny"], "deny", alone=True),
        port=_port(found["port"]) if "port" in found else None,
        methods=_methods(found),
        paths=_maybe_list(found, "paths", path_pattern),
    )


def _addresses(node: Node) -> Iterator[str]:
    if isinstance(node, ListNode):
        schema.texts(node, what="'address'")
        with located(node.mark):
            check_entries(node.items)
    for item in _entries(node):
        written = schema.text(item, what="'address'")
        with located(item.mark):
            for value in [written] if isinstance(node, ListNode) else written.split(","):
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
    found = schema.keys(item, what="a secret")
    hosts = sinks
    if "hosts" in found:
        named = schema.checked_texts(found["hosts"], lambda text: check_sink(_endpoint(text)), what="'hosts'")
        hosts = tuple(map(_endpoint, named))
    name = schema.required(found, "name", item, what="a secret")
    with located(found.get("hosts", item).mark):  # that there are too many is all that is left
        return SecretGrant(
            name=schema.checked(name, check_secret_name, what="'name'"),
            hosts=hosts,
            ref=_maybe_checked(found, "ref", check_reference),
            inject=_injection(found["inject"]) if "inject" in found else Injection(),
            shape=_maybe_checked(found, "shape", check_shape),
            max_uses=read_max_uses(found["max_uses"]) if "max_uses" in found else None,
        )


def _injection(node: Node) -> Injection:
    found = schema.keys(node, what="'inject'")
    places = [key for key in found if key != "format"]
    if len(places) != 1 or ("format" in found and places != ["header"]):
        expected = "header and perhaps format, or basic, or query, or body, or exchange, or sigv4"
        place = schema.key_mark(node, [*places[1:], "format"][0])
        raise WrongType("not one place", expected=expected, where=str(place))
    if "exchange" in found:
        return Injection.of_token(read_token_exchange(found["exchange"]))
    if "body" in found:
        return _body_injection(found["body"])
    if "sigv4" in found:
        return _signing_injection(found["sigv4"])
    if "basic" in found:
        return Injection(user=schema.checked(found["basic"], check_basic_user, what="'basic'"))
    if "query" in found:
        return Injection(None, query=schema.checked(found["query"], check_parameter, what="'query'"))
    named = schema.required(found, "header", node, what="'inject'")
    header = schema.checked(named, lambda text: check_header(text.lower()), what="'header'").lower()
    template = _maybe_checked(found, "format", check_format)
    return Injection(header, "{}" if template is None and header != "authorization" else template)


def _body_injection(node: Node) -> Injection:
    found = schema.keys(node, what="'body'")
    if len(found) != 1:
        place = schema.key_mark(node, "".join([*found][1:]))
        raise WrongType("not one place of a body", expected="json or form", where=str(place))
    if "json" in found:
        return Injection(None, json=schema.checked(found["json"], check_pointer, what="'json'"))
    return Injection(None, form=schema.checked(found["form"], check_parameter, what="'form'"))


def _signing_injection(node: Node) -> Injection:
    found = schema.keys(node, what="'sigv4'")
    service, region = (
        schema.checked(schema.required(found, key, node, what="'sigv4'"), check_aws_name, what=f"'{key}'")
        for key in ("service", "region")
    )
    return Injection(None, sigv4=SigV4(service, region))


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
    found = schema.keys(item, what="a model")
    named = schema.required(found, "name", item, what="a model")
    name = schema.checked(named, check_model_name, what="'name'")
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
    found = schema.keys(node, what="'resources'")
    bounds = {name: readers[name](value, what=f"'{name}'") for name, value in found.items()}
    for name, value in found.items():
        with located(value.mark):
            Resources(**{name: bounds[name]})
    return Resources(**bounds)


def _entries(node: Node) -> tuple[Node, ...]:
    """A list's entries; a single value is a list of one."""
    return node.items if isinstance(node, ListNode) else (node,)


def _denials_only(rule: _R, *, floor: bool) -> _R:
    if floor and isinstance(rule, (ToolRule, ProviderTool, EgressRule, PortGrant, StartGrant)):
        raise ConfigurationError(
            "a baseline policy may hold only denials", code="policy.floor", hint="Write {deny: ...}"
        )
    return rule


def _alone(node: Node, name: str) -> None:
    members = node.members if isinstance(node, MapNode) else ()
    for member in members:
        if member.key.text != name:
            raise WrongType(f"{name!r} must be the only key of its mapping", where=str(member.key.mark))


def _choice(found: Mapping[str, Node], name: str, choices: Iterable[str], default: str) -> str:
    return schema.one_of(found[name], tuple(choices), what=f"'{name}'") if name in found else default


def _maybe_checked(found: Mapping[str, Node], name: str, check: Callable[[str], object]) -> str | None:
    return schema.checked(found[name], check, what=f"'{name}'") if name in found else None


def _maybe_list(
    found: Mapping[str, Node], name: str, check: Callable[[str], object]
) -> tuple[str, ...] | None:
    if name not in found:
        return None
    values = schema.checked_texts(found[name], check, what=f"'{name}'")
    with located(found[name].mark):
        check_entries(values)
    return values
