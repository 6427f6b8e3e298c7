"""The errors of actions and of waiting for approval, each with its code.

::

    MalformedError
    +-- ActionMalformed       approval.action       bytes are no action in its one form
    NotAllowedError
    +-- ActionUnshowable      approval.unshowable   no approver can be shown all of it, so it cannot be approved
    +-- ApprovalDenied        approval.denied       an approver said no
    +-- ApprovalPending       approval.pending      not enough approvers have approved it yet
    +-- TooManyApprovals      approval.too_many     too many actions of one session wait, or were asked for
    NotFreshError
    +-- ApprovalExpired       approval.expired      the approval timed out
    StateError
    +-- ApprovalUsed          approval.used         the approval was used already
"""

from __future__ import annotations

from affiant.errors import MalformedError, NotAllowedError, NotFreshError, StateError

__all__ = [
    "ActionMalformed",
    "ActionUnshowable",
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalPending",
    "ApprovalUsed",
    "TooManyApprovals",
]


class ActionMalformed(MalformedError):
    """Bytes are not an action in its one canonical form."""

    code = "approval.action"


class ActionUnshowable(NotAllowedError):
    """All of an action cannot be shown to a person (too large, binary, a path whose content is not bound)."""

    code = "approval.unshowable"


class ApprovalDenied(NotAllowedError):
    """An approver has denied the action."""

    code = "approval.denied"


class ApprovalPending(NotAllowedError):
    """Not as many approvers as must have approved the action yet."""

    code = "approval.pending"


class TooManyApprovals(NotAllowedError):
    """Too many actions of one session wait for approval, or were asked for."""

    code = "approval.too_many"


class ApprovalExpired(NotFreshError):
    """The action was not approved, or not done, in time."""

    code = "approval.expired"


class ApprovalUsed(StateError):
    """The approval was used: it is good for one execution."""

    code = "approval.used"
