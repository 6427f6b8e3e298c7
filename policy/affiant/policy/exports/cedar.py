"""Writes a profile as Cedar policies and their schema; docs/policy-exports.md describes the requests.

Cedar decides on requests that were made canonical before; it has no *ask*, so that every request says whether a person
has approved it. With that, nearly all of a profile can be said exactly; that both decide alike is what tests hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from affiant.policy.exports.cedar_arguments import ARGUMENT_TYPE, argument_conditions, sayable
from affiant.policy.exports.cedar_egress import egress_policies, inspected
from affiant.policy.exports.cedar_text import all_of, any_of, cedar_string, like, negated, policy
from affiant.policy.exports.model import PROFILE, Document, Export, Ledger, Target, header_lines
from affiant.policy.exports.unjudged import note_unjudged
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import EgressRule, PathMode, ToolDenial, ToolRule

__all__ = ["CEDAR", "export_cedar"]

_NAME: Final = "cedar"


def export_cedar(profile: Profile, wider: frozenset[str] = frozenset()) -> Export:
    """Policies (``.cedar``) and schema (``.cedarschema``)."""
    ledger = Ledger(wider)
    _note_unsaid(profile, ledger)
    note_unjudged(profile, ledger, ["provider_tools", "ports", "may_start"])
    policies = _Policies(profile, ledger)
    header = "".join(f"// {line}\n" for line in header_lines(profile, _NAME))
    texts = (
        *policies.tools(),
        *policies.models(),
        *policies.files(),
        *policies.egress(),
        *policies.secrets(),
    )
    return ledger.export(
        profile,
        _NAME,
        [
            Document(".cedar", "\n".join([header, *texts, *policies.approval()])),
            Document(".cedarschema", f"{header}\n{_schema(profile)}"),
        ],
    )


CEDAR: Final = Target(_NAME, {}, export_cedar)


def _note_unsaid(profile: Profile, ledger: Ledger) -> None:
    ledger.unjudged(
        PROFILE,
        "canonical",
        "Cedar does not know which spellings are canonical: whoever asks must refuse hosts, paths, targets and "
        "arguments that affiant refuses",
    )
    if any(isinstance(rule, EgressRule) for rule in profile.policy.egress):
        ledger.unjudged(
            PROFILE, "dialling", "at which addresses a host is dialled, and whether TLS is inspected"
        )
    for position, grant in enumerate(profile.policy.secrets):
        if (grant.ref, grant.shape, grant.inject.format, grant.inject.user) != (None, None, None, None):
            ledger.unjudged(f"secrets/{position}", "secret", "where the value is kept, its format and shape")
        if grant.inject.exchange is not None:
            ledger.unjudged(
                f"secrets/{position}",
                "exchange",
                "at which token endpoint the secret is exchanged for a token",
            )
        if grant.inject.sigv4 is not None:
            ledger.unjudged(
                f"secrets/{position}", "secret", "what a request must be to be signed with this key"
            )
    if profile.policy.resources != type(profile.policy.resources)():
        ledger.unjudged("resources", "resources", "bounds of the machine are no requests")


def _files_covered(subject: str, path: str) -> str:
    """Whether the canonical path that ``subject`` stands for is ``path`` or below it."""
    if path == "/":
        return "true"
    return any_of([f"{subject} == {cedar_string(path)}", like(subject, "", path + "/", "*")])


class _Policies:
    """The policies of one profile, section by section."""

    def __init__(self, profile: Profile, ledger: Ledger) -> None:
        self._profile = profile
        self._ledger = ledger
        self._agent = f"principal == Affiant::Agent::{cedar_string(profile.name)}"

    def _policy(
        self,
        effect: str,
        rule: str,
        actions: Sequence[str],
        *,
        resource: str = "resource",
        when: str = "true",
        unless: str = "false",
    ) -> str:
        names = [f'Affiant::Action::"{action}"' for action in actions]
        action = f"action == {names[0]}" if len(names) == 1 else f"action in [{', '.join(names)}]"
        where = self._profile.where(rule)
        scope = (self._agent, action, resource)
        return policy(effect, rule=rule, where=where, scope=scope, when=when, unless=unless)

    # -- tools ---------------------------------------------------------------------------------------------------------

    def tools(self) -> Iterator[str]:
        """A permit for each allow; where it needs approval, a denial of whatever it covers unless approved."""
        for position, rule in enumerate(self._profile.policy.tools):
            rule_id = f"tools/{position}"
            resource = f"resource == Affiant::Tool::{cedar_string(rule.name)}"
            if isinstance(rule, ToolDenial):
                yield self._policy("forbid", rule_id, ["call_tool"], resource=resource)
                continue
            when = self._fits(rule)
            if self._is_sayable(rule_id, rule):
                yield self._policy("permit", rule_id, ["call_tool"], resource=resource, when=when)
            if rule.approval:  # also of a rule left out: another that fits the same call must not do without
                yield self._policy(
                    "forbid", rule_id, ["call_tool"], resource=resource, when=when, unless="context.approved"
                )

    def _fits(self, rule: ToolRule) -> str:
        """What is not known of a tool's origin is not in the context, and fulfils no rule that names it."""
        conditions = [
            f"context has {name} && context.{name} == {cedar_string(wanted)}"
            for name, wanted in (("server", rule.server), ("schema", rule.schema))
            if wanted is not None
        ]
        if rule.arguments is not None:
            conditions += argument_conditions(rule.arguments, _files_covered, self._may_use)
        return all_of(conditions)

    def _is_sayable(self, rule_id: str, rule: ToolRule) -> bool:
        unsaid = [argument.name for argument in rule.arguments or () if not sayable(argument.constraint)]
        if unsaid:
            text = f"argv, each and host cannot be said of arguments in Cedar: {', '.join(sorted(unsaid))}"
            self._ledger.omitted(rule_id, "arguments", text)
        return not unsaid

    def _may_use(self, subject: str, write: bool) -> str:  # noqa: FBT001 - a mode of use, given by a constraint
        modes = [PathMode.READ_WRITE] if write else [PathMode.READ, PathMode.READ_WRITE]
        grants = self._profile.policy.filesystem
        given = [_files_covered(subject, grant.path) for grant in grants if grant.mode in modes]
        taken = [_files_covered(subject, grant.path) for grant in grants if grant.mode is PathMode.NONE]
        return all_of([any_of(given), *([negated(any_of(taken))] if taken else [])])

    # -- models, files, secrets ----------------------------------------------------------------------------------------

    def models(self) -> Iterator[str]:
        """A permit for each model; for any where the profile names none."""
        if self._profile.policy.models is None:
            yield self._policy("permit", "models", ["use_model"])
        for position, rule in enumerate(self._profile.policy.models or ()):
            yield self._policy(
                "permit",
                f"models/{position}",
                ["use_model"],
                resource=f"resource == Affiant::Model::{cedar_string(rule.name)}",
                when="context.attested" if rule.attested else "true",
            )

    def files(self) -> Iterator[str]:
        """A permit for each grant; a denial for each carve-out."""
        for position, grant in enumerate(self._profile.policy.filesystem):
            effect = "forbid" if grant.mode is PathMode.NONE else "permit"
            actions = ["read_path"] if grant.mode is PathMode.READ else ["read_path", "write_path"]
            when = _files_covered("context.path", grant.path)
            yield self._policy(effect, f"filesystem/{position}", actions, when=when)

    def egress(self) -> Iterator[str]:
        """The policies of ``cedar_egress``."""
        for parts in egress_policies(self._profile.policy.egress, self._profile.policy.approval):
            yield self._policy(parts.effect, parts.rule, parts.actions, when=parts.when, unless=parts.unless)

    def secrets(self) -> Iterator[str]:
        """A permit for each secret that has a host, at inspected https endpoints, in its own place."""
        allows = [rule for rule in self._profile.policy.egress if isinstance(rule, EgressRule)]
        for position, grant in enumerate(self._profile.policy.secrets):
            if not grant.hosts:
                continue
            hosts = [
                f"context.host == {cedar_string(host)} && context.port == {port}"
                for host, port in grant.hosts
            ]
            surface = f"context.surface == {cedar_string(grant.surface)}"
            when = ['context.scheme == "https"', any_of(hosts), inspected(allows), surface]
            resource = f"resource == Affiant::Secret::{cedar_string(grant.name)}"
            yield self._policy(
                "permit", f"secrets/{position}", ["use_secret"], resource=resource, when=all_of(when)
            )

    def approval(self) -> Iterator[str]:
        """A denial of everything that needs approval, unless approved."""
        if self._profile.policy.approval.everything:
            actions = ["call_tool", "connect", "request", "use_secret"]
            yield self._policy("forbid", "approval", actions, unless="context.approved")


# -- the schema --------------------------------------------------------------------------------------------------------


def _schema(profile: Profile) -> str:
    arguments = {
        argument.name
        for rule in profile.policy.tools
        if isinstance(rule, ToolRule)
        for argument in rule.arguments or ()
    }
    args = ", ".join(f"{cedar_string(name)}?: Argument" for name in sorted(arguments))
    origin = "approved: Bool, server?: String, schema?: String"
    endpoint = "approved: Bool, host: String, port: Long, scheme: String"
    actions = (
        _action("call_tool", "Tool", f"{origin}, names: Set<String>, args: {{ {args} }}"),
        _action("use_model", "Model", "attested: Bool"),
        _action("read_path", "Filesystem", "path: String"),
        _action("write_path", "Filesystem", "path: String"),
        _action("connect", "Network", endpoint),
        _action("request", "Network", f"{endpoint}, method: String, path: String"),
        _action("use_secret", "Secret", f"{endpoint}, surface: String"),
    )
    entities = "entity Agent, Tool, Model, Secret, Filesystem, Network;"
    return _block("namespace Affiant", [entities, f"type Argument = {ARGUMENT_TYPE};", *actions])


def _action(name: str, resource: str, context: str) -> str:
    lines = (f"principal: [Agent], resource: [{resource}],", f"context: {{ {context} }}")
    return f"action {name} appliesTo {{\n" + "".join(f"    {line}\n" for line in lines) + "  };"


def _block(head: str, lines: Iterable[str]) -> str:
    return f"{head} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
