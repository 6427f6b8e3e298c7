"""What the SDK writes as JSON: the options of a session, its state, and a reference to a secret.

None of them holds a profile. A state comes back from wherever a caller kept it, so it never says what an agent may do:
the client does, and what a state asks for is bounded by the client's profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from agents.sandbox.manifest import EnvValue, Manifest
from agents.sandbox.session.sandbox_client import BaseSandboxClientOptions
from agents.sandbox.session.sandbox_session_state import SandboxSessionState
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PositiveInt,
    field_validator,
    model_validator,
)

from affiant.errors import AffiantError
from affiant.policy.model.profile import Resources
from affiant.sandbox.openai_agents.host_sources import host_sources, without_host_sources
from affiant.secrets.names.ref import SecretRef, secret_name

__all__ = [
    "AffiantSandboxClientOptions",
    "AffiantSandboxSessionState",
    "AffiantSecretRef",
    "ResourceBounds",
    "TaskLabel",
]

_TTL_S = 900.0


class ResourceBounds(BaseModel):
    """Bounds of one session, none above the profile's: counts, and bytes of memory and disk."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpus: PositiveInt | None = None
    memory: PositiveInt | None = None
    disk: PositiveInt | None = None
    pids: PositiveInt | None = None

    def resources(self) -> Resources:
        """As a sandbox takes them."""
        return Resources(**self.model_dump())


class TaskLabel(BaseModel):
    """What a session belongs to. Receipts carry it salted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workflow: str | None = None
    task: str | None = None
    attempt: int | None = None
    parent: str | None = None

    def label(self) -> dict[str, object]:
        """The members that are set."""
        return self.model_dump(exclude_none=True)


class AffiantSandboxClientOptions(BaseSandboxClientOptions):
    """What one session asks for beside its client's profile.

    Attributes:
        ttl: seconds until the session is closed in order, whatever runs; None: the longest lease.
        resources: further bounds. task: what the session belongs to.
        exposed_ports: ports of the agent's servers that may be resolved; the profile must list each.
        name: what the session is called. A session host holds it: it goes on when this process dies, and `resume` of
            its state finds it again.
        keep: it also goes on when it is shut down, until ``ttl`` is over or `affiant session stop`; named or not.
    """

    type: Literal["affiant"] = "affiant"  # pyright: ignore[reportIncompatibleVariableOverride]
    ttl: float | None = Field(default=_TTL_S, gt=0)
    resources: ResourceBounds | None = None
    task: TaskLabel | None = None
    exposed_ports: tuple[int, ...] = ()
    name: str | None = None
    keep: bool = False


class AffiantSandboxSessionState(SandboxSessionState):
    """The state of one session.

    Attributes:
        sandbox: the id that receipts name; None: no sandbox was opened yet.
        ttl, resources, task, name, keep: as in the options.
        host_sources: what a stored state named of the host's files (:mod:`host_sources`), place -> JSON; not in
            ``manifest``. It comes back if the client that resumes trusts it.
    """

    type: Literal["affiant"] = "affiant"  # pyright: ignore[reportIncompatibleVariableOverride]
    host_sources: dict[str, str] = Field(default_factory=dict)
    sandbox: str | None = None
    ttl: float | None = Field(default=_TTL_S, gt=0)
    resources: ResourceBounds | None = None
    task: TaskLabel | None = None
    name: str | None = None
    keep: bool = False

    @model_validator(mode="wrap")
    @classmethod
    def _set_host_sources_aside(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """A manifest that was stored may have been changed there; one that is an object was made by this process."""
        state = handler(value)
        if isinstance(value, Mapping) and not isinstance(value.get("manifest"), Manifest):
            state.host_sources |= host_sources(state.manifest)
            state.manifest = without_host_sources(state.manifest)
        return state


class AffiantSecretRef(EnvValue):
    """A variable that holds a secret's placeholder. The value is known to the session's broker alone.

    The variable is called like the secret, and the profile grants the secret.
    """

    type: Literal["affiant_secret"] = "affiant_secret"  # pyright: ignore[reportIncompatibleVariableOverride]
    name: str

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        try:
            return secret_name(name)
        except AffiantError as error:
            raise ValueError(str(error)) from error

    async def resolve(self) -> str:
        """Never a value.

        Raises:
            ``secret.outside_broker``: always. A sandbox of another backend would get the value in the clear.
        """
        SecretRef(self.name).resolve()
        raise AssertionError("the broker runs no agents")
