"""The servers of tools as the rest of the gateway sees them: none, or what the tool gate serves.

The tool gate needs the MCP SDK, an extra. Nothing here imports it unless the configuration names servers; a
configuration that does, where the SDK is missing, is refused at start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from affiant.errors import ConfigurationError
from affiant.gateway.config.config import Settings
from affiant.gateway.dialects.dialect import Offered
from affiant.gateway.requests.policy_gate import OriginOf
from affiant.gateway.sessions.decisions import GatewayDecisions
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.wire.errors import ToolNotAllowedError
from affiant.gateway.wire.routes import Application
from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.compiled import compile_policy
from affiant.policy.model.profile import Policy

if TYPE_CHECKING:  # the SDK is an extra; and the service holds us
    from affiant.gateway.service.service import Service
    from affiant.gateway.tool_gate.gate import ToolGate
    from affiant.gateway.tool_gate.tool_call import ToolGateRoute

__all__ = ["ToolOffers", "make_tool_offers"]

_OPERATOR: Final = "operator"
"""No session's id: those are longer."""


class ToolOffers:
    """A tool gate, and the route to it."""

    def __init__(self, gate: ToolGate) -> None:
        self._gate = gate
        self._route: ToolGateRoute | None = None

    def route(self, service: Service, decisions: GatewayDecisions) -> Application:
        """``POST /mcp``; ``decisions`` takes what policy decides there."""
        from affiant.gateway.tool_gate.tool_call import ToolGateRoute  # noqa: PLC0415 - only with the SDK

        self._route = ToolGateRoute(
            gate=self._gate,
            recorder=service.recorder,
            log=service.log,
            authenticator=service.authenticator,
            keyset_digest=service.keyset.digest,
            bodies=service.bodies,
            refusals=service.refusals,
            draining=lambda: service.draining,
            decisions=decisions,
            approvals=service.approvals,
            seconds=service.seconds,
        )
        return self._route

    async def origins(self, session: Session, names: Collection[str]) -> OriginOf:
        """Where tools of these names come from: the server that serves one to this session."""
        catalogue = await self._gate.catalogue(session.id, session.admitted.policy, names)

        def origin_of(offered: Offered) -> Origin:
            try:
                server = catalogue.find(offered.name or "").server
            except ToolNotAllowedError:
                return Origin(None, offered.schema)
            return Origin(server, offered.schema)

        return origin_of

    async def overview(self) -> bytes:
        """Every tool of every server, with its digest; JSON, for the operator."""
        catalogue = await self._gate.everything(_OPERATOR, compile_policy(Policy()))
        tools = [
            {"name": tool.name, "server": tool.server, "schema": tool.digest, "definition": tool.to_json()}
            for tool in sorted(catalogue.tools, key=lambda tool: (tool.server, tool.name))
        ]
        self._gate.leave(_OPERATOR)
        return json.dumps({"tools": tools, "unavailable": catalogue.unavailable}).encode("ascii")

    def sweep(self, open_sessions: set[str]) -> None:
        """Close what was open for sessions that have ended."""
        self._gate.sweep({*open_sessions, _OPERATOR})
        if self._route is not None:
            self._route.forget(open_sessions)

    async def close(self) -> None:
        """Close every connection."""
        await self._gate.close()


def make_tool_offers(
    settings: Settings, *, seconds: Callable[[], float], random_bytes: Callable[[int], bytes]
) -> ToolOffers | None:
    """What the configuration's servers offer; None where it names none.

    Raises:
        ``gateway.settings``: the SDK is missing, or a server's roots are not those of the configuration.
    """
    servers = settings.config.mcp_servers
    if not servers:
        return None
    try:
        from affiant.gateway.tool_gate.path_copies import PathCopies  # noqa: PLC0415 - used with it alone
        from affiant.gateway.tool_servers.making import make_gate  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError(
            "tool servers need the MCP SDK", hint="pip install 'affiant[mcp]'", code="gateway.settings"
        ) from error
    keys = [each.key for each in (*settings.credentials.values(), *settings.mcp_credentials.values())]
    secrets = (*(key for key in keys if key is not None), *settings.mcp_secrets)
    copies = None
    if settings.path_copies is not None:
        copies = PathCopies(settings.path_copies, random_bytes=random_bytes)
    gate = make_gate(
        servers,
        settings.mcp_credentials,
        store=settings.store,
        secrets=secrets,
        seconds=seconds,
        copies=copies,
    )
    return ToolOffers(gate)
