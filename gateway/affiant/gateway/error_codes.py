"""Lists the codes of this package's errors that no program catches by a class of their own.

Each is raised as its family with ``code=``. An error that a program catches has a class; its docstring is its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ERROR_CODES"]

ERROR_CODES: Final[Mapping[str, tuple[str, str]]] = {
    "admission.child": (
        "NotAllowedError",
        "A child session has another profile than its parent announced, or the parent another one since.",
    ),
    "admission.expired": ("NotFreshError", "An activation or a statement that has expired."),
    "admission.floor": (
        "NotAllowedError",
        "A session's profile does not contain the baseline policy of this gateway.",
    ),
    "admission.isolation": (
        "NotAllowedError",
        "A session's activation names a weaker isolation than its manifest demands.",
    ),
    "admission.mismatch": (
        "NotAuthenticError",
        "A fact in a session's evidence contradicts another, or this gateway.",
    ),
    "admission.nonce": (
        "NotFreshError",
        "A nonce that this gateway did not make, that was used, or that expired.",
    ),
    "admission.replayed": (
        "NotFreshError",
        "A session id, an activation, a statement or a key that was admitted before.",
    ),
    "approval.refused": (
        "StateError",
        "The gateway rejected the decision; the text and the code in brackets are its own.",
    ),
    "approval.shown_other": (
        "NotAuthenticError",
        "The gateway showed another action than the one that was asked for.",
    ),
    "clock.contradicted": (
        "UnreachableError",
        "Witnesses date the log differently from this machine's clock: a verifier would reject what is recorded now.",
    ),
    "erasure.chain_growing": ("StateError", "An order would prune a chain of the boot that serves."),
    "erasure.held": ("NotAllowedError", "A legal hold is in force on what was ordered to be erased."),
    "erasure.kind": (
        "NotAllowedError",
        "Other records depend on this record: its content can be erased, the record itself stays.",
    ),
    "erasure.mismatch": ("StateError", "An order names a record that is not here, or not as it says."),
    "erasure.repeated": ("StateError", "An order names what was ordered to be erased before."),
    "erasure.session_open": ("StateError", "An order names a record of a session that has not ended."),
    "export.busy": ("StateError", "Another export writes the same file."),
    "export.nothing": (
        "ConfigurationError",
        "The log has no leaf in the range, or no record of the sessions that were asked for.",
    ),
    "gateway.configuration_unbound": (
        "NotAuthenticError",
        "The TD that this gateway runs in was not launched for its configuration.",
    ),
    "gateway.error": ("StateError", "An error of the gateway's own; its log has the details."),
    "gateway.memory": (
        "UnreachableError",
        "The bodies that are held take all the memory that there is for bodies.",
    ),
    "gateway.settings": ("ConfigurationError", "The settings do not fit together."),
    "gateway.unreachable": ("UnreachableError", "No gateway serves from this folder."),
    "hold.unknown": (
        "StateError",
        "There is no hold in force that this would end, or that it is a replay of.",
    ),
    "journal.version": (
        "StateError",
        "The journal is of another build's format. It is neither read nor set aside.",
    ),
    "log.unwitnessed": (
        "UnreachableError",
        "The configured witnesses have cosigned no checkpoint lately; no session is admitted meanwhile.",
    ),
    "model.not_allowed": ("NotAllowedError", "The profile does not allow this model."),
    "model.not_found": ("StateError", "No upstream serves this model."),
    "narrowing.out_of_turn": (
        "StateError",
        "A session's profile is restricted only once its supervisor has recorded the previous restriction.",
    ),
    "narrowing.unsettled": (
        "StateError",
        "Requests under way did not end although they were interrupted, so the session's profile was not restricted.",
    ),
    "not_found": ("StateError", "There is no such thing, or not for this caller."),
    "proof.key_given": (
        "StateError",
        "The session was given its key for proofs by MAC before; it gets one only.",
    ),
    "proof.missing": ("NotAuthenticError", "A request without a proof of possession."),
    "proof.no_key": (
        "NotAuthenticError",
        "A proof by MAC of a session that has no key for it: it has not asked for one, or it has ended.",
    ),
    "queue.deadline": (
        "QueueError",
        "The request has waited for the upstream for as long as any request may.",
    ),
    "queue.full": ("QueueError", "Too many requests wait for the upstream already."),
    "record.out_of_place": ("MalformedError", "A supervisor's record does not continue its session's chain."),
    "request.content_encoding": (
        "MalformedError",
        "A body with a content encoding: what is hashed would not be what is read.",
    ),
    "request.content_type": ("MalformedError", "A body of another media type than the endpoint takes."),
    "request.timeout": ("UnreachableError", "A body did not come to its end in time."),
    "request.too_large": ("MalformedError", "A body is larger than the configuration allows."),
    "request.unlisted": (
        "ToolNotAllowedError",
        "A member, a tool or a message part that the gateway's lists do not have, where the profile restricts tools.",
    ),
    "response.not_found": (
        "StateError",
        "A request names a stored response, or an item of one, that this session does not know.",
    ),
    "session.closed": ("StateError", "The session has ended; nothing follows its close record."),
    "session.narrowing": (
        "UnreachableError",
        "The session's profile is being restricted: nothing new begins until that is done.",
    ),
    "session.not_closed": (
        "UnreachableError",
        "The session accepts nothing more, and its close is not durable yet; it will be, or the chain ends in a gap.",
    ),
    "session.start_denied": (
        "NotAllowedError",
        "The profile does not let the session start a session of this agent.",
    ),
    "session.unknown": (
        "NotAuthenticError",
        "A proof by a key, or for a session, that the gateway does not know.",
    ),
    "tool.arguments": ("ToolNotAllowedError", "The arguments of a call do not fit the tool's own schema."),
    "tool.cancelled": (
        "ToolNotAllowedError",
        "The agent cancelled the call; if it was already made, it is not known whether the server did what was asked.",
    ),
    "tool.needs_approval": (
        "ToolNotAllowedError",
        "What needs approval cannot be shown as one call: two equal calls, or a tool that is offered twice.",
    ),
    "tool.schema_changed": (
        "ToolNotAllowedError",
        "A server describes a tool differently from what was agreed to, or from its first description.",
    ),
    "tool.server_error": ("MalformedError", "The server answered with an error of its own."),
    "tool.server_unavailable": (
        "UnreachableError",
        "A server of tools does not answer, or not with what MCP says.",
    ),
    "tool.unknown": ("ToolNotAllowedError", "No server of the tool gate serves this tool now."),
    "upstream.answer": ("MalformedError", "An upstream's answer is HTTP, but not one that can be passed on."),
    "upstream.event_too_large": (
        "MalformedError",
        "An event of an upstream's stream is larger than `event_max` of the configuration.",
    ),
    "upstream.head_timeout": (
        "UnreachableError",
        "An upstream's response did not begin within `head_s` of its configuration.",
    ),
    "upstream.idle_timeout": (
        "UnreachableError",
        "An upstream's response stopped coming for `idle_s` of its configuration.",
    ),
    "upstream.malformed": (
        "MalformedError",
        "An upstream's answer is not HTTP, or not what its content type says.",
    ),
    "upstream.not_attested": (
        "NotAllowedError",
        "The profile wants this model at an attested upstream, and none is.",
    ),
    "upstream.overloaded": (
        "QueueError",
        "The upstream answered 503 with `Retry-After`, and is asked again only then.",
    ),
    "upstream.rate_limited": (
        "QueueError",
        "The upstream answered 429 with `Retry-After`, and is asked again only then.",
    ),
    "upstream.total_timeout": (
        "UnreachableError",
        "An upstream's response did not end within `total_s` of its configuration.",
    ),
    "upstream.unauthorized": (
        "NotAuthenticError",
        "An upstream refused this gateway's own credential; its text is not passed on.",
    ),
    "upstream.unlisted": (
        "ToolNotAllowedError",
        "An answer holds an object that the gateway's lists do not have, where the profile restricts tools.",
    ),
    "url.not_allowed": (
        "NotAllowedError",
        "A request names a URL that the upstream would fetch, and the profile's egress rules do not allow it.",
    ),
    "url.not_canonical": (
        "NotAllowedError",
        "A request names a path, an address or an ambiguous URL where the upstream would fetch what it names.",
    ),
}
"""Code -> the family that is raised, and its meaning."""
