"""What the supervisor refuses, each with its stable code.

::

    NotAuthenticError
    +-- ProfileMismatch        session.profile_mismatch     the policy is not the one the manifest names
    +-- MRCONFIGIDMismatch     session.mrconfigid_mismatch  the TD was launched for another manifest
    +-- ProvisionMismatch      session.provision_mismatch   something provisioned is not what the manifest names
    +-- AdmissionMismatch      session.admission_mismatch   the gateway's answer is not about this session
    NotAllowedError
    +-- AdmissionRefused       session.not_admitted         the gateway refused; carries its code
    NotFreshError
    +-- SessionExpired         session.expired              the activation's time is over
    StateError
    +-- TransitionRefused      session.transition           a step that the life cycle does not have
    +-- RecordBudgetSpent      session.budget               the agent caused too many records, and is stopped
    +-- RecordsStopped         session.records_stopped      the chain cannot go on; the agent is stopped
    +-- NarrowingBusy          session.narrowing_busy       the profile cannot be narrowed now; everything is as it was
    +-- NarrowingFailed        session.narrowing_failed     a narrowing that began failed; the session is ended
    UnreachableError
    +-- BrokerLost             session.broker_lost          the secret broker is gone
    +-- SandboxLost            session.sandbox_lost         the isolation runner is gone
    +-- GatewayLost            gateway.lost                 the gateway that admitted this session is gone

The gateway's own refusals: ``gateway.unreachable`` and ``session.gateway_mismatch`` of ``errors``.
"""

from __future__ import annotations

from affiant.errors import NotAllowedError, NotAuthenticError, NotFreshError, StateError, UnreachableError

__all__ = [
    "AdmissionMismatch",
    "AdmissionRefused",
    "BrokerLost",
    "GatewayLost",
    "MRCONFIGIDMismatch",
    "NarrowingBusy",
    "NarrowingFailed",
    "ProfileMismatch",
    "ProvisionMismatch",
    "RecordBudgetSpent",
    "RecordsStopped",
    "SandboxLost",
    "SessionExpired",
    "TransitionRefused",
]


class ProfileMismatch(NotAuthenticError):
    """The policy's bytes are not those whose digest stands in the manifest."""

    code = "session.profile_mismatch"


class MRCONFIGIDMismatch(NotAuthenticError):
    """MRCONFIGID of the supervisor's own report is not the digest of the manifest that it was given."""

    code = "session.mrconfigid_mismatch"


class ProvisionMismatch(NotAuthenticError):
    """Something that was provisioned is not what manifest or activation names."""

    code = "session.provision_mismatch"


class AdmissionMismatch(NotAuthenticError):
    """The gateway's admission is not about this session, these keys and this evidence."""

    code = "session.admission_mismatch"


class AdmissionRefused(NotAllowedError):
    """The gateway does not admit the session.

    Args:
        gateway_code: the stable code that the gateway gave.
    """

    code = "session.not_admitted"

    def __init__(self, message: str, *, gateway_code: str, hint: str | None = None) -> None:
        super().__init__(message, found=gateway_code, hint=hint)
        self.gateway_code = gateway_code


class SessionExpired(NotFreshError):
    """The activation's time is over."""

    code = "session.expired"


class TransitionRefused(StateError):
    """A step that the life cycle does not have from its present state."""

    code = "session.transition"


class RecordBudgetSpent(StateError):
    """The agent has caused so many records that its session is closed, while its evidence can still be carried."""

    code = "session.budget"


class RecordsStopped(StateError):
    """Records can no longer be kept or acknowledged, so nothing that needs one may happen."""

    code = "session.records_stopped"


class NarrowingBusy(StateError):
    """The session's profile cannot be narrowed now, or not any more; it goes on as it was."""

    code = "session.narrowing_busy"


class NarrowingFailed(StateError):
    """A narrowing began and could not be completed: nobody can say that all sides go by one profile, so it is ended."""

    code = "session.narrowing_failed"


class BrokerLost(UnreachableError):
    """The secret broker is gone; there is no egress without it."""

    code = "session.broker_lost"
    retryable = False


class SandboxLost(UnreachableError):
    """The isolation runner is gone, and the agent with it."""

    code = "session.sandbox_lost"
    retryable = False


class GatewayLost(UnreachableError):
    """The gateway that admitted this session stopped: no other can take its records or close it."""

    code = "gateway.lost"
    retryable = False
