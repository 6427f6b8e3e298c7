"""Builds the JSON Schema of a profile file and of a baseline policy, for editors.

JSON Schema 2020-12. The keys are those of ``format_keys``, the patterns and methods those that the
reader uses. The schema is for comfort and decides nothing: what loads is valid under it, with one exception, and what
is valid may still be refused (paths, hosts and how rules fit together are the reader's to judge).

The exception: to an editor a name spelled ``null`` is nothing. To us every value is text, so it is a name; quote it.

>>> profile_schema()["$defs"]["tool_rule"]["required"]
['name']
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from affiant.policy.canonical.names import SPELLINGS
from affiant.policy.canonical.targets import METHODS
from affiant.policy.loading.approval_reading import DURATION
from affiant.policy.loading.limit_reading import SPELLED
from affiant.policy.model.pattern_syntax import MAX_PATTERN
from affiant.policy.model.profile import Scheme, TLSMode
from affiant.policy.model.share import MOST_WEIGHT, PRIORITIES
from affiant.policy.model.token_exchange import EXCHANGE_SPELLINGS, ClientAuth, GrantType, SubjectTokenType
from affiant.policy.normal_form.format_keys import KEYS
from affiant.policy.normal_form.schema import SIZE

__all__ = ["floor_schema", "profile_schema", "schema_text"]

Schema = Mapping[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_MOST: Final = 1024
_PATH: Final = r"""/[^*?\[\]{}~$,:!|<>'"`\\]*"""
_MODES: Final = ("none", "read", "read-only", "read-write")


def profile_schema() -> Schema:
    """The schema of a file of profiles."""
    return {
        "$schema": _DIALECT,
        "title": "affiant permission profiles",
        "description": "Version 1. What no rule allows is denied. Values are text; quote a name such as null.",
        **_mapping("a profile file", _FILE, empty=True),
        "$defs": _definitions(_DEFINED),
    }


def floor_schema() -> Schema:
    """The schema of a baseline policy: an organisation's denials."""
    return {
        "$schema": _DIALECT,
        "title": "affiant baseline policy",
        "description": "Version 1. Denials, carve-outs and demands for approval, merged into every profile.",
        **_mapping("a baseline policy", _FLOOR),
        "$defs": _definitions(_DEFINED_FOR_FLOORS),
    }


def schema_text(schema: Schema) -> str:
    """The schema as a file's text."""
    return json.dumps(schema, indent=2, ensure_ascii=True) + "\n"


def _definitions(names: Sequence[str]) -> Schema:
    return {name: _DEFINITIONS[name] for name in names}


# -- parts -------------------------------------------------------------------------------------------------------------


def _mapping(
    what: str, values: Mapping[str, Schema], *, required: Sequence[str] = (), empty: bool = False
) -> Schema:
    """A mapping with exactly the keys that the reader knows there; ``empty``: nothing may stand in its place."""
    members: dict[str, Any] = {"type": ["object", "null"] if empty else "object"}
    if required:
        members["required"] = list(required)
    return {
        **members,
        "properties": {key: values[key] for key in KEYS[what]},
        "additionalProperties": False,
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _described(schema: Schema, description: str) -> Schema:
    return {"description": description, **schema}


def _list(of: Schema, *, least: int = 0) -> Schema:
    bounds = {"minItems": least} if least else {}
    return {"type": "array", **bounds, "maxItems": _MOST, "items": of}


def _one_or_many(of: Schema, *, none: Sequence[str]) -> Schema:
    return {"anyOf": [{"enum": list(none)}, of, _list(of)]}


def _string(pattern: str) -> Schema:
    return {"type": "string", "pattern": f"^(?:{pattern})$"}


def _spelled(pattern: re.Pattern[str]) -> Schema:
    return _string(pattern.pattern.replace(r"\Z", ""))


def _name(kind: str) -> Schema:
    """A name; editors take some for numbers or booleans, the reader takes all as text."""
    return {**_spelled(SPELLINGS[kind]), "type": ["string", "number", "boolean"]}


def _exchanged(member: str) -> Schema:
    """As :func:`_name`, of a member of an exchange."""
    return {**_spelled(EXCHANGE_SPELLINGS[member]), "type": ["string", "number", "boolean"]}


def _choice(choices: Sequence[str]) -> Schema:
    return {"enum": list(choices)}


_TEXT: Final[Schema] = {"type": ["string", "number", "boolean"]}
_HOST: Final[Schema] = {"type": "string", "minLength": 1}
_PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 1}


def _limit(kind: str) -> Schema:
    """One limit; to an editor a bare number is one."""
    spelled = _spelled(SPELLED[kind])
    return spelled if kind in ("bytes", "rate", "time") else {"anyOf": [_COUNT, spelled]}


def _limits(kind: str) -> Schema:
    """One limit, or several of different windows."""
    return {"anyOf": [_limit(kind), _list(_limit(kind), least=1)]}


_REQUEST_LISTS: Final[Mapping[str, Schema]] = {
    "methods": _described(
        _list(_choice(sorted(METHODS)), least=1),
        "Absent: any. HEAD is not implied by GET; names are upper-case.",
    ),
    "paths": _described(
        _list({"type": "string", "pattern": "^/"}, least=1),
        "Absent: any. Exact, or ending in /** for all below.",
    ),
}

_SINGLE: Final[Mapping[str, Schema]] = {
    "one_of": _described(_list(_TEXT, least=1), "One of these; unquoted 5 and true are no text."),
    "const": _described(_TEXT, "Exactly this."),
    "min": {"type": "integer"},
    "max": {"type": "integer"},
    "max_len": _described(_COUNT, "Text of at most so many characters."),
    "pattern": _described(
        {**_TEXT, "minLength": 1, "maxLength": MAX_PATTERN},
        "Text that wholly fits: characters, [a-z0-9], (a|b), ?, *, +, {2}, {1,40}.",
    ),
    "under": _described(_string(_PATH), "A path here or below, which filesystem_access must allow too."),
    "write": _described({"type": "boolean"}, "Beside 'under': the path is to be written."),
    "host": _described(_HOST, "A host, which network_egress must allow too."),
}
_ARGUMENT: Final[Mapping[str, Schema]] = {
    **_SINGLE,
    "each": _mapping("'each'", _SINGLE),
    "max_items": _described(_COUNT, "Beside 'each'; default 64."),
    "argv": _described(_list(_list(_TEXT, least=1), least=1), "Exactly one of these lists of tokens."),
    "optional": _described({"type": "boolean"}, "Whether a call without it is allowed."),
}
_TOOL: Final[Mapping[str, Schema]] = {
    "name": _described(_name("tool"), "The tool's exact name."),
    "server": _described(_string("[a-z0-9][a-z0-9-]{0,62}"), "The only server that may serve it."),
    "schema": _described(
        _string("sha256:[0-9a-f]{64}"), "The digest of the only definition that it may have."
    ),
    "approval": _described({"type": "boolean"}, "Whether a person must approve each call."),
    "args": {
        "description": "All that it may be called with; absent: anything.",
        "type": "object",
        "additionalProperties": _ref("argument"),
    },
    "rate": _described(_limit("rate"), "The calls that this rule lets through, such as 10/min."),
    "deny": _described(_name("tool"), "A tool that may not be called, whatever else allows it."),
}
_PATH_ENTRY: Final[Mapping[str, Schema]] = {
    "path": _described(_string(_PATH), "Absolute, inside the sandbox; covers the whole subtree. No globs."),
    "mode": _described(_choice(_MODES), "none is a carve-out, which wins whatever its depth."),
}
_EGRESS_LIMITS: Final[Mapping[str, Schema]] = {
    "requests": _described(_limits("count"), "Such as 60/min."),
    "bytes_out": _described(_limits("bytes"), "Such as 5MiB."),
}
_EGRESS: Final[Mapping[str, Schema]] = {
    "host": _described(_HOST, "A host, *.x for one label more, or **.x for one or more."),
    "port": _described(_PORT, "Default 443; 80 for http."),
    "scheme": _described(
        _choice([each.value for each in Scheme]), "Default https; http never carries a secret."
    ),
    **_REQUEST_LISTS,
    "tls": _described(
        _choice([each.value for each in TLSMode]),
        "Default inspect; passthrough forbids secrets, methods and paths.",
    ),
    "address": _described(
        {"anyOf": [{"type": "string"}, _list({"type": "string"}, least=1)]},
        "The only addresses (CIDR) at which the host is dialled.",
    ),
    "limits": _described(
        {**_mapping("a rule's 'limits'", _EGRESS_LIMITS), "minProperties": 1},
        "What this rule lets through in one session.",
    ),
}
_EGRESS_DENIAL: Final[Mapping[str, Schema]] = {
    "deny": _described(_HOST, "A host that may not be reached, whatever else allows it."),
    "port": _described(_PORT, "Absent: any."),
    **_REQUEST_LISTS,
}
_BODY: Final[Mapping[str, Schema]] = {
    "json": _described(_name("pointer"), "A pointer into a JSON object, such as /auth/token."),
    "form": _described(_name("parameter"), "The field of a form (application/x-www-form-urlencoded)."),
}
_EXCHANGE: Final[Mapping[str, Schema]] = {
    "grant": _described(
        _choice([each.value for each in GrantType]),
        "How the token endpoint is asked, and what the secret is.",
    ),
    "url": _described(_spelled(EXCHANGE_SPELLINGS["url"]), "The token endpoint: https://host[:port]/path."),
    "client_id": _described(_exchanged("client_id"), "The client's public name."),
    "client_auth": _described(
        _choice([each.value for each in ClientAuth]),
        "Of client_credentials: how the client shows its secret. Default client_secret_basic.",
    ),
    "issuer": _described(
        _exchanged("issuer"), "Of jwt_bearer: iss of the assertion, such as a service account."
    ),
    "subject": _described(
        _exchanged("subject"), "Of jwt_bearer: sub of the assertion, where the issuer wants one."
    ),
    "key_id": _described(_exchanged("key_id"), "Of jwt_bearer: kid of the assertion's header."),
    "subject_token_type": _described(
        _choice([each.value for each in SubjectTokenType]),
        "Of token_exchange: what the secret is. Default access_token.",
    ),
    "audience": _described(
        _exchanged("audience"), "Whom the token is for; of jwt_bearer aud of the assertion, default the URL."
    ),
    "resource": _described(_exchanged("resource"), "Whom the token is for, as an absolute URI (RFC 8707)."),
    "scope": _described(_exchanged("scope"), "What the token is for: words with one blank between them."),
}
_SIGV4: Final[Mapping[str, Schema]] = {
    "service": _described(_name("aws_name"), "The service in the credential scope, such as s3."),
    "region": _described(_name("aws_name"), "The region in the credential scope, such as eu-central-1."),
}
_INJECT: Final[Mapping[str, Schema]] = {
    "header": _described(_TEXT, "The header whose whole value is the placeholder."),
    "format": _described(
        _spelled(SPELLINGS["format"]), "Beside 'header': text with one {} for the placeholder."
    ),
    "basic": _described(_name("basic_user"), "The user whose Basic password the placeholder is."),
    "query": _described(_name("parameter"), "The parameter whose whole value the placeholder is."),
    "body": _described(
        {**_mapping("'body'", _BODY), "minProperties": 1, "maxProperties": 1},
        "The place of the body whose whole value the placeholder is.",
    ),
    "exchange": _described(
        _mapping("'exchange'", _EXCHANGE, required=["grant", "url"]),
        "What the secret is exchanged for: a token, which goes to the hosts in its place, as Bearer credentials.",
    ),
    "sigv4": _described(
        {**_mapping("'sigv4'", _SIGV4), "required": ["service", "region"]},
        "The requests that the broker signs with this key (AWS Signature Version 4).",
    ),
}
_SECRET: Final[Mapping[str, Schema]] = {
    "name": _described(_name("secret"), "The secret's name, never its value."),
    "ref": _described(_spelled(SPELLINGS["reference"]), "local:NAME or vault:<mount>/<path>#<field>."),
    "hosts": _described(
        _list(_HOST, least=1), "host[:port]. Absent: every https host that is named in full."
    ),
    "inject": {
        **_mapping("'inject'", _INJECT),
        "oneOf": [
            {"required": [place]} for place in ("header", "basic", "query", "body", "exchange", "sigv4")
        ],
        "dependentRequired": {"format": ["header"]},
    },
    "shape": _described(_spelled(SPELLINGS["shape"]), "What the placeholder looks like, such as ghp_{36}."),
    "max_uses": _described(_COUNT, "Requests of one session into which it is put."),
}
_MODEL: Final[Mapping[str, Schema]] = {
    "name": _described(_name("model"), "The model's exact name."),
    "upstream": _described(
        _choice(["any", "attested"]), "attested: only where the upstream was verified before."
    ),
    "max_tokens": _described(_limit("most tokens"), "The most that one request may ask for, such as 4096."),
}
_WHO_APPROVES: Final[Mapping[str, Schema]] = {
    "everything": _described({"type": "boolean"}, "Every tool call and every request."),
    "egress": _described(_list(_choice(sorted(METHODS)), least=1), "Methods of requests."),
    "approvers": _described(
        {**_list({"anyOf": [_name("approver"), _ref("approver")]}, least=1), "maxItems": 16},
        "Thumbprints of keys, and identities; without any, what needs approval is denied.",
    ),
    "trusted_root": _described(
        {"type": "string", "minLength": 2},
        "The text of a sigstore trusted_root.json, under which signatures of identities are judged.",
    ),
    "quorum": _described(_COUNT, "How many different approvers must agree; default 1."),
    "ttl": _described(_spelled(DURATION), "How long a request waits: 90s, 10m, 2h; default 10m."),
}
_BESIDE_APPROVERS: Final[Schema] = {
    "dependentRequired": {name: ["approvers"] for name in ("quorum", "trusted_root", "ttl")}
}
_APPROVER: Final[Mapping[str, Schema]] = {
    "issuer": _described(_spelled(SPELLINGS["issuer"]), "Who knows them, exactly as in the certificate."),
    "subject": _described(_spelled(SPELLINGS["subject"]), "Their e-mail address, or the URI of a workflow."),
}
_APPROVAL: Final[Mapping[str, Schema]] = {
    **_WHO_APPROVES,
    "tools": _described(_list(_name("tool"), least=1), "Tools of this profile."),
}
_LIMITS: Final[Mapping[str, Schema]] = {
    "tool_calls": _described(_limits("count"), "Calls that models make, such as 500."),
    "requests": _described(_limits("count"), "Requests to models, such as 120/min."),
    "tokens": _described(_limits("tokens"), "Tokens of requests and answers, such as 2M/day."),
    "bytes_out": _described(_limits("bytes"), "Bytes that go out to hosts, such as 50MiB."),
    "wall": _described(_limit("time"), "How long the session may last, such as 2h."),
}
_SIZE: Final[Schema] = _described(_spelled(SIZE), "With a unit: 512MiB, 2GiB.")
_RESOURCES: Final[Mapping[str, Schema]] = {
    "cpus": _COUNT,
    "memory": _SIZE,
    "disk": _described(_SIZE, "The private scratch space (/tmp)."),
    "pids": _COUNT,
}
_REQUEST: Final[Mapping[str, Schema]] = {
    "tool": _TEXT,
    "args": _described({"type": "object"}, "Beside 'tool': the arguments of the call."),
    "model": _TEXT,
    "attested_model": _TEXT,
    "read": _TEXT,
    "write": _TEXT,
    "egress": _described(_TEXT, "METHOD URL."),
    "secret": _described(_TEXT, "NAME@host[:port]."),
}
_TEST: Final[Mapping[str, Schema]] = {
    "allow": _described(_ref("request"), "Allowed, perhaps after approval."),
    "ask": _described(_ref("request"), "Allowed once a person has approved it."),
    "deny": _described(_ref("request"), "Denied."),
}
_APPROVAL_SECTION: Final = "What a person must approve first, and who may: true for everything, or a mapping."
_LIMITS_SECTION: Final = "How much the agent may do in one session: 500, or of a window, 120/min."
_PROFILE: Final[Mapping[str, Schema]] = {
    "tools": _described(_list(_ref("tool")), "The tools that may be called."),
    "filesystem_access": _described(
        _one_or_many(_ref("path"), none=["none", "denied"]), "none, MODE:/path, or a list."
    ),
    "network_egress": _described(
        _one_or_many(_ref("egress"), none=["denied"]), "denied, allowed:host[:port], or a list."
    ),
    "secrets_access": _described(
        _list({"anyOf": [_name("secret"), _ref("secret")]}),
        "Names of secrets. The agent holds placeholders; the proxy puts the values in.",
    ),
    "requires_human_approval": _described(
        {"anyOf": [{"type": "boolean"}, _ref("approval")]}, _APPROVAL_SECTION
    ),
    "models": _described(
        _list({"anyOf": [_name("model"), _ref("model")]}), "Absent: any that the gateway serves; []: none."
    ),
    "limits": _described({**_mapping("'limits'", _LIMITS), "minProperties": 1}, _LIMITS_SECTION),
    "weight": _described(
        {"type": "integer", "minimum": 1, "maximum": MOST_WEIGHT},
        "Share of an upstream while others of its priority wait too; default 1.",
    ),
    "priority": _described(
        _choice([each.value for each in PRIORITIES]), "Which of those who wait come first; default normal."
    ),
    "resources": _described(_mapping("'resources'", _RESOURCES), "Bounds of the sandbox."),
    "tests": _described(_list(_ref("test")), "Held against the profile whenever it is loaded."),
}
_VERSION: Final[Schema] = _described({"const": 1}, "The version of the format.")
_FILE: Final[Mapping[str, Schema]] = {
    "version": _VERSION,
    "floor": _described(
        {"type": ["string", "number", "boolean"]},
        "A file beside this one that holds denials for every profile.",
    ),
    "agent_configs": {
        "description": "The profile of each agent.",
        "type": ["object", "null"],
        "propertyNames": _spelled(SPELLINGS["agent"]),
        "additionalProperties": _ref("profile"),
    },
}
_FLOOR: Final[Mapping[str, Schema]] = {
    "version": _VERSION,
    "tools": _described(_list(_ref("tool_denial")), "Tools that no agent may call."),
    "filesystem_access": _described(
        _one_or_many(_ref("carve_out"), none=["none", "denied"]), "Paths that no agent sees."
    ),
    "network_egress": _described(
        _one_or_many(_ref("egress_denial"), none=["denied"]), "Hosts that no agent reaches."
    ),
    "requires_human_approval": _described(
        {"anyOf": [{"type": "boolean"}, _ref("approval_by_floor")]}, _APPROVAL_SECTION
    ),
    "limits": _described({**_mapping("'limits'", _LIMITS), "minProperties": 1}, _LIMITS_SECTION),
}

_DEFINITIONS: Final[Mapping[str, Schema]] = {
    "profile": _mapping("a profile", _PROFILE, empty=True),
    "tool": {"anyOf": [_name("tool"), _ref("tool_rule"), _ref("tool_denial")]},
    "tool_rule": {
        "type": "object",
        "required": ["name"],
        "properties": {key: _TOOL[key] for key in KEYS["a tool"] if key != "deny"},
        "additionalProperties": False,
    },
    "tool_denial": {
        "type": "object",
        "required": ["deny"],
        "properties": {"deny": _TOOL["deny"]},
        "additionalProperties": False,
    },
    "argument": {"anyOf": [{"const": "any"}, _mapping("an argument", _ARGUMENT)]},
    "path": {"anyOf": [_string(f"(?:{'|'.join(_MODES)}):{_PATH}"), _ref("path_entry")]},
    "path_entry": _mapping("a path", _PATH_ENTRY, required=["path", "mode"]),
    "carve_out": {
        "anyOf": [
            _string(f"none:{_PATH}"),
            _mapping("a path", {**_PATH_ENTRY, "mode": {"const": "none"}}, required=["path", "mode"]),
        ]
    },
    "egress": {"anyOf": [_string("allowed:[^*].*"), _ref("egress_rule"), _ref("egress_denial")]},
    "egress_rule": _mapping("an egress rule", _EGRESS, required=["host"]),
    "egress_denial": _mapping("an egress denial", _EGRESS_DENIAL, required=["deny"]),
    "secret": _mapping("a secret", _SECRET, required=["name"]),
    "model": _mapping("a model", _MODEL, required=["name"]),
    "approval": {
        **_mapping("'requires_human_approval'", _APPROVAL),
        **_BESIDE_APPROVERS,
        "minProperties": 1,
    },
    "approval_by_floor": {
        "type": "object",
        "properties": dict(_WHO_APPROVES),
        "additionalProperties": False,
        **_BESIDE_APPROVERS,
        "minProperties": 1,
    },
    "approver": _mapping("an approver", _APPROVER, required=["issuer", "subject"]),
    "test": {**_mapping("a test", _TEST), "minProperties": 1, "maxProperties": 1},
    "request": {
        **_mapping("a test's request", _REQUEST),
        "minProperties": 1,
        "if": {"required": ["tool", "args"]},
        "then": {"maxProperties": 2},
        "else": {"maxProperties": 1},
    },
}
_DEFINED: Final = (
    *(
        "profile",
        "argument",
        "tool",
        "tool_rule",
        "tool_denial",
        "path",
        "path_entry",
        "egress",
        "egress_rule",
        "egress_denial",
    ),
    *("secret", "model", "approval", "approver", "test", "request"),
)
_DEFINED_FOR_FLOORS: Final = ("tool_denial", "carve_out", "egress_denial", "approval_by_floor", "approver")
