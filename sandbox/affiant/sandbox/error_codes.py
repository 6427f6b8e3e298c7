"""Lists the codes of this package's errors that no program catches by a class of their own.

Each is raised as its family with ``code=``. An error that a program catches has a class; its docstring is its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ERROR_CODES"]

ERROR_CODES: Final[Mapping[str, tuple[str, str]]] = {
    "egress.address": ("NotAllowedError", "An allowed name has an address that must not be dialled."),
    "egress.ambiguous": ("MalformedError", "Two servers could read the bytes as two requests (smuggling)."),
    "egress.cut": ("StateError", "The request was interrupted by a restriction or by the session's end."),
    "egress.host_mismatch": ("NotAllowedError", "CONNECT, SNI, target and ``Host`` do not name one host."),
    "egress.method": ("NotAllowedError", "A method that is never forwarded, or a header that overrides it."),
    "egress.name_budget": ("NotAllowedError", "Too many different names, which could carry data out."),
    "egress.name_unresolved": ("UnreachableError", "An allowed name has no address."),
    "egress.request": (
        "MalformedError",
        "Not an HTTP/1.1 request in the one form that all servers read alike.",
    ),
    "egress.upgrade": ("NotAllowedError", "The request asks for a protocol that the proxy does not judge."),
    "files.changed": ("StateError", "A program in the sandbox changed the folder during the call."),
    "files.disk": ("NotAllowedError", "The session's files would become larger than its disk limit."),
    "files.kind": ("StateError", "The path names a folder where a file is expected, or the reverse."),
    "files.missing": ("StateError", "The sandbox has no such file or folder."),
    "files.path": (
        "NotAllowedError",
        "The profile gives the agent no files at the path, or a link leads there.",
    ),
    "files.read_only": ("NotAllowedError", "The agent may not write at the path."),
    "gateway.draining": (
        "UnreachableError",
        "The gateway takes no new sessions, because it is about to be stopped.",
    ),
    "gateway.no_receipt": ("NotAllowedError", "The answer has no receipt: the counter may have no record."),
    "gateway.proof_refused": (
        "NotAllowedError",
        "The gateway rejected the proof: the counter has no record.",
    ),
    "home.file": ("MalformedError", "A file of the state folder is not in its form."),
    "home.refused": (
        "ConfigurationError",
        "The state folder is no folder, another user's, or open to others.",
    ),
    "isolation.plan": ("ConfigurationError", "The plan has a path, source or size that no sandbox may have."),
    "isolation.unavailable": ("ConfigurationError", "No backend here reaches the minimum isolation."),
    "openai_agents.missing": ("ConfigurationError", "The OpenAI Agents SDK with sandboxes is not installed."),
    "openai_agents.root": (
        "ConfigurationError",
        "The root of a manifest is no path of the profile's ``filesystem_access``.",
    ),
    "openai_agents.secret": (
        "ConfigurationError",
        "A manifest names a secret that the profile does not grant, or that is not kept.",
    ),
    "ports.address": ("ConfigurationError", "The port has no URL, or its Unix socket cannot be made."),
    "ports.denied": ("NotAllowedError", "The profile does not list the port."),
    "ports.open": ("StateError", "The port is open already, or too many are."),
    "ports.refused": ("StateError", "No server of the agent's listens on the port."),
    "runtime.busy": ("StateError", "Another build works on the same folder."),
    "runtime.changed": ("StateError", "A built environment was changed since it was built."),
    "runtime.failed": ("ConfigurationError", "pip or npm failed; its last error follows."),
    "runtime.hash": ("NotAuthenticError", "A package is not the one whose hash was pinned."),
    "runtime.index": ("UnreachableError", "The index or registry of packages does not answer."),
    "runtime.interpreter": ("ConfigurationError", "The sandbox does not show the environment's interpreter."),
    "runtime.output": (
        "ConfigurationError",
        "The output folder cannot be made, or `affiant runtime build` did not make it.",
    ),
    "runtime.outside": ("ConfigurationError", "A package of the environment lies outside of it."),
    "runtime.package": (
        "ConfigurationError",
        "A package has no wheel that fits, or there is no such package.",
    ),
    "runtime.program": (
        "ConfigurationError",
        "The command's program names an interpreter that is not shown.",
    ),
    "runtime.python_version": (
        "ConfigurationError",
        "The packages are for another Python than the sandbox has.",
    ),
    "runtime.requirements": (
        "ConfigurationError",
        "The requirements cannot be read, or ask for a source.",
    ),
    "runtime.tool": ("ConfigurationError", "pip or npm is not installed."),
    "service.failed": ("StateError", "A service cannot be started, or has ended."),
    "service.order": (
        "StateError",
        "A template process rejects an order, or the message is not an order.",
    ),
    "service.silent": ("UnreachableError", "A service did not become ready in time."),
    "service.unreadable": ("ConfigurationError", "A service's own user cannot read a path that it needs."),
    "services.other_configuration": ("ConfigurationError", "The running gateway cannot serve this session."),
    "session.act": (
        "StateError",
        "An act of the session failed by a mistake in the supervisor; the session is ended.",
    ),
    "session.admission_mismatch": ("NotAuthenticError", "The admission has other keys or evidence."),
    "session.archive": ("MalformedError", "What came is not a tar archive of plain files."),
    "session.bundle": (
        "MalformedError",
        "What came for a session is not a bundle and its sealed disclosures.",
    ),
    "session.caller": ("NotAuthenticError", "The request has no token that the HTTP server accepts."),
    "session.caller_unlisted": ("NotAllowedError", "The caller is not on the HTTP server's list."),
    "session.child_profile": (
        "NotAuthenticError",
        "A child session has another profile than the one that its start was judged by.",
    ),
    "session.child_unknown": (
        "NotAllowedError",
        "The session is none that this session started, or it was closed.",
    ),
    "session.command_unknown": ("StateError", "The session has run no command of this number, or long ago."),
    "session.control": ("MalformedError", "A control message that is not one of the protocol's."),
    "session.crowded": (
        "UnreachableError",
        "The HTTP server's limit of requests at once is reached, for all callers or for one.",
    ),
    "session.environment": ("ConfigurationError", "A name that is no variable, or one that is set already."),
    "session.expired": (
        "NotFreshError",
        "The activation's time, or the session's time to live, is over.",
    ),
    "session.extra_ca": (
        "ConfigurationError",
        "A file given as extra certificate authorities holds no certificates.",
    ),
    "session.gateway_address": ("ConfigurationError", "The gateway's address is not one that can be used."),
    "session.gateway_pin": ("ConfigurationError", "A gateway is named without the configuration to expect."),
    "session.holder": (
        "StateError",
        "The call is for a session that a session host holds, or for one that this process holds.",
    ),
    "session.host": ("ConfigurationError", "A host-to-address entry is malformed."),
    "session.host_failed": (
        "StateError",
        "The session host could not be started, or failed by a mistake of its own.",
    ),
    "session.input": ("ConfigurationError", "The input, its place or the output does not fit the profile."),
    "session.input_commit": ("ConfigurationError", "The input is no git repository, or has no such commit."),
    "session.input_private": ("ConfigurationError", "A folder for the agent overlaps a private one."),
    "session.issuer": ("UnreachableError", "The keys of the OpenID issuer cannot be fetched."),
    "session.key_taken": (
        "StateError",
        "The session of this idempotency key has another agent or profile.",
    ),
    "session.launcher_silent": (
        "UnreachableError",
        "The process that holds the session does not answer its supervisor.",
    ),
    "session.mrconfigid_mismatch": ("NotAuthenticError", "MRCONFIGID is not the manifest's digest."),
    "session.name": ("ConfigurationError", "The name is not valid for a session."),
    "session.name_taken": ("StateError", "Another session that runs has this name."),
    "session.narrowing_busy": ("StateError", "The profile cannot be restricted now; it stays as it was."),
    "session.no_output": ("StateError", "No output of this command is kept."),
    "session.no_socket": ("StateError", "The socket of a session host cannot be made."),
    "session.no_terminal": ("ConfigurationError", "An interactive command was started without a terminal."),
    "session.not_closed": ("UnreachableError", "The gateway did not close the session in time."),
    "session.not_gathered": ("StateError", "The session's receipts, or its files, cannot be had from here."),
    "session.not_here": ("ConfigurationError", "This state folder has no session of that id."),
    "session.not_open": ("StateError", "The step needs a session that is open, and this one is not."),
    "session.only_copy": (
        "StateError",
        "What was to be removed may be the only copy of a session's records or files.",
    ),
    "session.output_branch": ("ConfigurationError", "The branch for the changes exists, or cannot be one."),
    "session.platform": ("ConfigurationError", "This machine's TD cannot run this session."),
    "session.pool": ("ConfigurationError", "Such sessions cannot be held in a pool here."),
    "session.pool_failed": ("StateError", "A supervisor that waits for a session could not be started."),
    "session.profile_mismatch": (
        "NotAuthenticError",
        "The policy has another digest than the manifest names.",
    ),
    "session.provision_mismatch": ("NotAuthenticError", "Manifest or activation names something else."),
    "session.records_stopped": ("StateError", "Records can no longer be kept or acknowledged."),
    "session.request": ("MalformedError", "An HTTP request about sessions does not match its schema."),
    "session.request_slow": ("NotFreshError", "The body of an HTTP request came too slowly."),
    "session.resources": (
        "ConfigurationError",
        "The session asks for more resources than its profile allows.",
    ),
    "session.running": ("StateError", "The session has not ended: its own launcher hands everything over."),
    "session.server": (
        "ConfigurationError",
        "The HTTP server's address, certificate or callers cannot be used.",
    ),
    "session.server_failed": ("StateError", "A request failed by an internal error of the HTTP server."),
    "session.silent": ("UnreachableError", "The session's host or its supervisor does not answer in time."),
    "session.supervisor_lost": ("StateError", "The supervisor ended without saying why."),
    "session.terminal_ended": ("StateError", "Something was typed to a command that has ended."),
    "session.terminal_full": (
        "StateError",
        "A command did not read what was typed in the time that was given.",
    ),
    "session.terminal_size": ("ConfigurationError", "A terminal cannot have this size."),
    "session.too_large": ("MalformedError", "The body of an HTTP request is too large."),
    "session.too_many": ("StateError", "The HTTP server's limit of running sessions is reached."),
    "session.too_many_children": (
        "StateError",
        "One session and its children have started too many sessions.",
    ),
    "session.tool_arguments": (
        "MalformedError",
        "An argument of a call about a child session is missing, unknown or malformed.",
    ),
    "session.transition": ("StateError", "A step that the life cycle does not have from its present state."),
    "session.ttl": ("ConfigurationError", "A session was asked to live longer than the HTTP server allows."),
    "session.upstream": ("ConfigurationError", "An address given as a model server is not one."),
    "store.locked": ("StateError", "Another process holds this part of the state folder."),
    "workspace.git": (
        "ConfigurationError",
        "An input, a diff or a branch needs git, which is not installed.",
    ),
    "workspace.image": ("MalformedError", "An archive or OCI layout that is not what it claims to be."),
    "workspace.output": ("NotAllowedError", "A link or a file of the output is where a directory is needed."),
    "workspace.stream": (
        "MalformedError",
        "The received data is not a stream of files, or it ends too early.",
    ),
    "workspace.unwritable": ("UnreachableError", "The output cannot be written: a full disk, for example."),
}
"""Code -> the family that is raised, and its meaning."""
