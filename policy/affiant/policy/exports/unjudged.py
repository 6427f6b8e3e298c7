"""Records the losses of sections that a target does not know at all."""

from __future__ import annotations

from collections.abc import Iterable

from affiant.policy.exports.model import Ledger
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import Resources

__all__ = ["note_unjudged", "omit_secrets"]


def note_unjudged(profile: Profile, ledger: Ledger, sections: Iterable[str]) -> None:
    """Tell each rule of ``sections`` as unjudged: those below, and ``resources``."""
    rules = {
        "tools": ("which tools an agent calls is not judged", profile.policy.tools),
        "provider_tools": ("what the model's provider runs is not judged", profile.policy.provider_tools),
        "may_start": ("which agents an agent starts is not judged", profile.policy.may_start),
        "ports": (
            "which of the agent's own servers the session's owner may reach is not judged",
            profile.policy.ports,
        ),
        "models": ("which models an agent calls is not judged", profile.policy.models or ()),
        "filesystem": ("files are not judged", profile.policy.filesystem),
        "egress": ("connections are not judged", profile.policy.egress),
    }
    for section in sections:
        if section == "resources":
            if profile.policy.resources != Resources():
                ledger.unjudged("resources", "plane", "the bounds of the machine are not set")
            continue
        text, found = rules[section]
        for position in range(len(found)):
            ledger.unjudged(f"{section}/{position}", "plane", text)
        if section == "models" and profile.policy.models == ():
            ledger.unjudged("models", "plane", text)


def omit_secrets(profile: Profile, ledger: Ledger, text: str) -> None:
    """Leave out every secret: the agent then has none of them."""
    for position, grant in enumerate(profile.policy.secrets):
        more = "" if grant.inject.sigv4 is None else "; nothing is signed with it"
        ledger.omitted(f"secrets/{position}", "secret", text + more)
