"""A backend of the OpenAI Agents SDK: its sandbox agents work in sessions with receipts.

::

    client = AffiantSandboxClient(profile="profiles.yaml", agent="code_implementer")
    result = await Runner.run(agent, "...", run_config=RunConfig(sandbox=SandboxRunConfig(client=client)))
    print(client.bundles)

It needs the SDK: ``pip install 'affiant[openai-agents]'``.
"""

from typing import TYPE_CHECKING, Final

from affiant.errors import ConfigurationError
from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.sandbox.openai_agents.sandbox_client import AffiantSandboxClient
    from affiant.sandbox.openai_agents.sandbox_session import AffiantSandboxSession
    from affiant.sandbox.openai_agents.serialized import (
        AffiantSandboxClientOptions,
        AffiantSandboxSessionState,
        AffiantSecretRef,
    )

__all__ = [
    "AffiantSandboxClient",
    "AffiantSandboxClientOptions",
    "AffiantSandboxSession",
    "AffiantSandboxSessionState",
    "AffiantSecretRef",
]

_PUBLIC: Final = {
    "AffiantSandboxClient": "affiant.sandbox.openai_agents.sandbox_client",
    "AffiantSandboxClientOptions": "affiant.sandbox.openai_agents.serialized",
    "AffiantSandboxSession": "affiant.sandbox.openai_agents.sandbox_session",
    "AffiantSandboxSessionState": "affiant.sandbox.openai_agents.serialized",
    "AffiantSecretRef": "affiant.sandbox.openai_agents.serialized",
}
_names = lazy_names(__name__, _PUBLIC)


def __getattr__(name: str) -> object:
    try:
        return _names(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "affiant":
            raise
        raise ConfigurationError(
            "the OpenAI Agents SDK with sandboxes is not installed",
            found=f"no module {error.name}",
            hint="Install it with: pip install 'affiant[openai-agents]'",
            code="openai_agents.missing",
        ) from error
