"""Decides what an agent may do: permission profiles, their normal form and digest, decisions, and the reviewer's tools.

Reads files only. ``policy/README.md`` shows how the public names work together.
"""

from typing import TYPE_CHECKING, Final

from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.policy.decision.compiled import CompiledPolicy, compile_policy, parse_normal_form
    from affiant.policy.decision.decide import Decision, Effect
    from affiant.policy.decision.questions import answer, parse_question
    from affiant.policy.diff.differences import Difference, compare_profile_sets
    from affiant.policy.lint.lint import Finding, lint_profiles
    from affiant.policy.loading.load import load_profiles
    from affiant.policy.loading.policy_file import read_profiles
    from affiant.policy.loading.profile_set import Profile, ProfileSet
    from affiant.policy.model.profile import Policy

__all__ = [
    "CompiledPolicy",
    "Decision",
    "Difference",
    "Effect",
    "Finding",
    "Policy",
    "Profile",
    "ProfileSet",
    "answer",
    "compare_profile_sets",
    "compile_policy",
    "lint_profiles",
    "load_profiles",
    "parse_normal_form",
    "parse_question",
    "read_profiles",
]

_PUBLIC: Final = {
    "CompiledPolicy": "affiant.policy.decision.compiled",
    "Decision": "affiant.policy.decision.decide",
    "Difference": "affiant.policy.diff.differences",
    "Effect": "affiant.policy.decision.decide",
    "Finding": "affiant.policy.lint.lint",
    "Policy": "affiant.policy.model.profile",
    "Profile": "affiant.policy.loading.profile_set",
    "ProfileSet": "affiant.policy.loading.profile_set",
    "answer": "affiant.policy.decision.questions",
    "compare_profile_sets": "affiant.policy.diff.differences",
    "compile_policy": "affiant.policy.decision.compiled",
    "lint_profiles": "affiant.policy.lint.lint",
    "load_profiles": "affiant.policy.loading.load",
    "parse_normal_form": "affiant.policy.decision.compiled",
    "parse_question": "affiant.policy.decision.questions",
    "read_profiles": "affiant.policy.loading.policy_file",
}
__getattr__ = lazy_names(__name__, _PUBLIC)
