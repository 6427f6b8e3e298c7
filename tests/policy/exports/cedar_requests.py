"""Our questions as requests to Cedar, in the form that docs/policy-exports.md gives; and what its engine answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import cedarpy

from affiant.policy.canonical.errors import AffiantError
from affiant.policy.canonical.hosts import is_canonical_host
from affiant.policy.canonical.paths import canonical_path
from affiant.policy.canonical.strict_yaml import Mark
from affiant.policy.canonical.targets import canonical_target, decoded_path
from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    SecretQuestion,
    ToolQuestion,
)
from affiant.policy.exports.cedar import export_cedar
from affiant.policy.exports.model import Export
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.arguments import parse_arguments
from affiant.policy.model.profile import PathMode


@dataclass(frozen=True)
class Asked:
    """One request of our own, with what a plane needs beside the question."""

    question: ToolQuestion | ModelQuestion | PathQuestion | EgressQuestion | SecretQuestion
    attested: bool = False
    surface: str = "header:authorization"

    @property
    def plane(self) -> str:
        return type(self.question).__name__.removesuffix("Question").lower()


def profile_of(policy: CompiledPolicy) -> Profile:
    """A profile of a policy that was never written, its rules at made-up lines."""
    sections = {
        "tools": policy.policy.tools,
        "filesystem": policy.policy.filesystem,
        "egress": policy.policy.egress,
        "secrets": policy.policy.secrets,
        "models": policy.policy.models or (),
        "provider_tools": policy.policy.provider_tools,
        "ports": policy.policy.ports,
        "may_start": policy.policy.may_start,
    }
    rules = [f"{name}/{position}" for name, rules in sections.items() for position in range(len(rules))]
    places = {rule: Mark("made.yaml", line, 1) for line, rule in enumerate(rules, start=2)}
    return Profile("dev", policy, Mark("made.yaml", 1, 1), places)


def known(origin: Origin) -> Origin:
    """What enforcement would ask: of no tool it is said that it comes from wherever a rule says."""
    return Origin(*(None if value == ANY else value for value in origin))


def our_answer(policy: CompiledPolicy, asked: Asked) -> tuple[Effect, str, tuple[str, ...]]:
    match asked.question:
        case ToolQuestion(name, arguments, origin):
            found = policy.decide_call(name, arguments or "", known(origin))
        case ModelQuestion(name):
            found = policy.decide_model(name, attested=asked.attested)
        case PathQuestion(path, mode):
            found = policy.decide_path(path, mode)
        case EgressQuestion(host, port, scheme, method, target):
            found = policy.decide_egress(host=host, port=port, scheme=scheme, method=method, target=target)
        case SecretQuestion(name, host, port):
            found = policy.decide_secret(name, host=host, port=port, scheme="https", surface=asked.surface)
    return found.effect, found.reason, found.rules


class Cedar:
    """The engine with one exported profile. ``allowed`` needs a request in canonical form."""

    def __init__(self, profile: Profile) -> None:
        self.export: Export = export_cedar(profile)
        policies, schema = (document.text for document in self.export.documents)
        checked = cedarpy.validate_policies(policies, schema)
        assert checked.validation_passed, [error.error for error in checked.errors]
        self._policies = cedarpy.PolicySet.from_str(policies)
        self._schema = cedarpy.Schema.from_str(schema)
        self._entities = cedarpy.Entities.from_json_str("[]")
        self._agent = f'Affiant::Agent::"{profile.name}"'
        self._known = frozenset(
            argument.name
            for rule in profile.policy.tools
            for argument in getattr(rule, "arguments", None) or ()
        )

    def answers(self, asked: Sequence[Asked]) -> Iterator[tuple[Asked, Effect | None]]:
        """What Cedar says to each; None where the request is not canonical, so that it must not be asked."""
        requests = [self.request(each) for each in asked]
        whole = [request for request in requests if request is not None]
        without, with_approval = (self._batch(whole, approved=approved) for approved in (False, True))
        effects = (
            Effect.ALLOW if one else Effect.ASK if other else Effect.DENY
            for one, other in zip(without, with_approval, strict=True)
        )
        for each, request in zip(asked, requests, strict=True):
            yield each, None if request is None else next(effects)

    def _batch(self, requests: Iterable[Mapping[str, object]], *, approved: bool) -> list[bool]:
        given = [self._with(request, approved=approved) for request in requests]
        results = cedarpy.is_authorized_batch(given, self._policies, self._entities, schema=self._schema)
        for result in results:
            assert not result.diagnostics.errors, result.diagnostics.errors
        return [result.allowed for result in results]

    def _with(self, request: Mapping[str, object], *, approved: bool) -> dict[str, object]:
        context = request["context"]
        assert isinstance(context, dict)
        asks = str(request["action"]).split('"')[1] in ("call_tool", "connect", "request", "use_secret")
        return {**request, "context": {**context, "approved": approved} if asks else context}

    def request(self, asked: Asked) -> dict[str, object] | None:
        """The request but for ``approved``; None where it is not canonical."""
        try:
            found = self._parts(asked)
        except AffiantError:
            return None
        if found is None:
            return None
        action, resource, context = found
        return {
            "principal": self._agent,
            "action": f'Affiant::Action::"{action}"',
            "resource": f"Affiant::{resource}",
            "context": context,
        }

    def _parts(self, asked: Asked) -> tuple[str, str, dict[str, object]] | None:
        match asked.question:
            case ToolQuestion(name, arguments, origin):
                values = parse_arguments(arguments or "")
                args = {key: argument_record(values[key]) for key in sorted(values.keys() & self._known)}
                pairs = zip(("server", "schema"), known(origin), strict=True)
                origins = {key: value for key, value in pairs if value is not None}
                return "call_tool", f'Tool::"{name}"', {"names": sorted(values), "args": args, **origins}
            case ModelQuestion(name):
                return "use_model", f'Model::"{name}"', {"attested": asked.attested}
            case PathQuestion(path, mode):
                action = "read_path" if mode is PathMode.READ else "write_path"
                return action, 'Filesystem::"sandbox"', {"path": canonical_path(path)}
            case EgressQuestion(host, port, scheme, method, target):
                if not is_canonical_host(host):
                    return None
                endpoint: dict[str, object] = {"host": host, "port": port, "scheme": scheme.value}
                if method is None:
                    return "connect", 'Network::"egress"', endpoint
                path = decoded_path(canonical_target(target or ""))
                return "request", 'Network::"egress"', {**endpoint, "method": method, "path": path}
            case SecretQuestion(name, host, port):
                if not is_canonical_host(host):
                    return None
                endpoint = {"host": host, "port": port, "scheme": "https", "surface": asked.surface}
                return "use_secret", f'Secret::"{name}"', endpoint


def argument_record(value: object) -> dict[str, object]:
    """One argument as Cedar's record: nothing for a type that no constraint which Cedar can say looks at."""
    if isinstance(value, bool):
        return {"truth": value}
    if isinstance(value, int):
        return {"integer": value}
    if not isinstance(value, str):
        return {}
    record: dict[str, object] = {"text": value, "length": len(value)}
    try:
        record["path"] = canonical_path(value)
    except AffiantError:
        pass
    return record
