"""``affiant gateway``: serve the inference gateway, ask how it is, fetch a session's bundle."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import click

from affiant.attestation.simulated.served.socket_path import platform_socket
from affiant.attestation.statements.gateway_config import EVENT_MAX
from affiant.command_line import EXIT_REFUSED, Group, print_json, printable
from affiant.errors import UnreachableError
from affiant.gateway.admission.draining import MAX_DRAIN_S
from affiant.gateway.cli.drain_command import drained
from affiant.gateway.config.config import BODIES_MAX, MOST_SESSIONS, SESSIONS_MAX
from affiant.gateway.log.log_mirror import read_state
from affiant.gateway.process.launch import (
    Launch,
    UpstreamChoice,
    WitnessChoice,
    launch_gateway,
    planned_config,
)
from affiant.gateway.upstream.priority_band import CONCURRENT
from affiant.policy.decision_log.rotation import MAX_SIZE, Rotation
from affiant.sandbox.base.privileges import GATEWAY_USER, is_root
from affiant.sandbox.processes.upstream_address import PATHLESS, lacks_path, parse_timeouts
from affiant.unix_http import OPERATOR_SOCKET, request

__all__ = ["default_home", "gateway"]

_MAX_RESPONSE: Final = 1 << 28
_TIMEOUT_S: Final = 30.0


def default_home() -> str:
    """``affiant`` in the XDG state folder; click reads ``$AFFIANT_HOME`` first."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return str(Path(state) / "affiant")


_home = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="AFFIANT_HOME",
    default=default_home,
    show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
    help="Folder that holds gateway/ and secrets/.",
)
_upstream = click.option(
    "--upstream", multiple=True, metavar="URL", help="An OpenAI-compatible server, up to /v1."
)
_upstream_key_ref = click.option(
    "--upstream-key-ref", multiple=True, metavar="local:NAME", help="API keys, in the order of --upstream."
)
_upstream_ca = click.option(
    "--upstream-ca",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The only certificates to trust for the upstreams, PEM, in their order.",
)
_upstream_plain_http = click.option(
    "--upstream-plain-http",
    is_flag=True,
    help="Allow upstreams on other machines over plain http: prompts are readable on the way.",
)
_upstream_concurrency = click.option(
    "--upstream-concurrency",
    multiple=True,
    type=click.IntRange(1, 4096),
    metavar="N",
    help=f"Requests that the upstreams are asked at once, in their order; default {CONCURRENT}. Others wait, in the "
    "order that the weights and priorities of their profiles say.",
)

_upstream_timeout = click.option(
    "--upstream-timeout",
    multiple=True,
    metavar="HEAD[,IDLE[,TOTAL]]",
    help="Seconds to wait for the head of a response, between two reads of it, and for its end, for the upstreams in "
    "their order; default 600,300,3600.",
)
_body_max = click.option(
    "--body-max",
    type=click.IntRange(1, 64),
    metavar="MIB",
    default=8,
    show_default=True,
    help="Largest request body. The supervisors of sessions take no larger one either.",
)
_event_max = click.option(
    "--event-max",
    type=click.IntRange(1, 64),
    metavar="MIB",
    default=EVENT_MAX >> 20,
    show_default=True,
    help="Largest event of an upstream's stream.",
)


class _WitnessChoice(click.Path):
    """``self``, ``none``, or a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value in ("self", "none") else super().convert(value, param, ctx)


_witnesses = click.option(
    "--witnesses",
    type=_WitnessChoice(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE|self|none",
    default="self",
    show_default=True,
    help="Who must cosign the log: a C2SP tlog-policy file, each witness with its URL; `self`: one that is started "
    "with the gateway, which detects faults, not a determined operator; `none`: no witness.",
)
_authority = click.option(
    "--erasure-authority",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Public key (JWK) of one whose orders to erase and to hold are carried out; see `affiant erase`.",
)
_signers = click.option(
    "--profile-signers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Admit no session unless one of these has signed its profile; see `affiant policy sign`.",
)
_floor = click.option(
    "--floor",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Admit no session unless its profile contains this baseline policy.",
)
_mcp_servers = click.option(
    "--mcp-servers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Servers of tools that agents reach at /mcp, as JSON; needs affiant[mcp].",
)
_model_aliases = click.option(
    "--model-alias",
    multiple=True,
    metavar="MODEL=NAME",
    help="An answer that names NAME is from MODEL, which was asked for: gpt-4o=gpt-4o-2024-08-06. May be repeated. "
    "Other names are a warning in the verdict, and end the answer where the profile lists models.",
)
_allowed_members = click.option(
    "--allow-member",
    multiple=True,
    metavar="DIALECT:PLACE.NAME",
    help="Lets requests or responses of a dialect hold a member or part that the gateway does not know, where profiles "
    "restrict tools: chat:request.thinking, chat:part.web_page. It becomes part of the configuration. May be repeated.",
)
_chat_members = click.option(
    "--chat-member",
    multiple=True,
    metavar="PLACE.NAME",
    help="The same as --allow-member chat:PLACE.NAME. May be repeated.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=Group)
def gateway() -> None:
    """The inference gateway: admits attested sessions, forwards, and signs one receipt per request."""


@gateway.command()
@_home
@click.option("--listen", default="127.0.0.1:0", show_default=True, help="Address and port; port 0: any.")
@click.option("--platform", type=click.Path(path_type=Path), help="Socket of the simulated TDX platform.")
@_upstream
@_upstream_key_ref
@_upstream_ca
@_upstream_plain_http
@_upstream_concurrency
@_upstream_timeout
@_body_max
@_event_max
@_witnesses
@_authority
@_signers
@_floor
@_mcp_servers
@_model_aliases
@_allowed_members
@_chat_members
@click.option(
    "--ready-fd", type=click.IntRange(min=3), help="Descriptor that gets one line of JSON when serving."
)
@click.option(
    "--user",
    type=click.IntRange(min=1),
    help=f"User id that the server runs as, when started as root. Default: {GATEWAY_USER}.",
)
@click.option(
    "--body-memory",
    type=click.IntRange(min=1),
    default=BODIES_MAX >> 20,
    show_default=True,
    metavar="MIB",
    help="MiB that the bodies of all requests together may hold; beyond it: 503, gateway.memory.",
)
@click.option(
    "--sessions",
    type=click.IntRange(1, MOST_SESSIONS),
    default=SESSIONS_MAX,
    show_default=True,
    help="Sessions that may be open at once; beyond it: 429, gateway.busy. More than the default: 8 open files each.",
)
@click.option(
    "--decisions",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append each decision about models and tools to this file, for 'affiant policy learn' and 'simulate'. If it "
    "cannot be written, nothing is allowed.",
)
@click.option(
    "--decisions-size",
    type=click.IntRange(1, MAX_SIZE >> 20),
    default=Rotation().size >> 20,
    show_default=True,
    metavar="MIB",
    help="MiB at which that file is set aside as FILE.000001, FILE.000002, ...",
)
@click.option(
    "--decisions-keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Delete all but the last N that were set aside; default: keep all.",
)
@click.option(
    "--secret-passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A private file (0600) with the passphrase of the local secret store, where one opens it.",
)
@click.option(
    "--log-objects",
    metavar="URL",
    help="Keep a copy of the transparency log there: s3://bucket/prefix or file:///folder. Credentials and endpoint "
    "are read from the environment: AWS_ACCESS_KEY_ID and others.",
)
@click.pass_context
def serve(
    context: click.Context,
    *,
    home: Path,
    listen: str,
    platform: Path | None,
    upstream: tuple[str, ...],
    upstream_key_ref: tuple[str, ...],
    upstream_ca: tuple[Path, ...],
    upstream_plain_http: bool,
    upstream_concurrency: tuple[int, ...],
    upstream_timeout: tuple[str, ...],
    body_max: int,
    event_max: int,
    witnesses: WitnessChoice,
    erasure_authority: tuple[Path, ...],
    profile_signers: Path | None,
    floor: Path | None,
    mcp_servers: Path | None,
    model_alias: tuple[str, ...],
    allow_member: tuple[str, ...],
    chat_member: tuple[str, ...],
    ready_fd: int | None,
    user: int | None,
    body_memory: int,
    sessions: int,
    decisions: Path | None,
    decisions_size: int,
    decisions_keep: int | None,
    secret_passphrase_file: Path | None,
    log_objects: str | None,
) -> None:
    """Serve until SIGTERM or SIGINT. Without --upstream, prompts go to the embedded echo.

    Clients pin the key that the gateway's evidence names; its address is in gateway/gateway.json. Sessions are
    admitted only while a quorum of its witnesses has cosigned the transparency log in the last five minutes.

    \b
    Examples:
      affiant gateway serve
      affiant gateway serve --listen 127.0.0.1:8443 --upstream http://127.0.0.1:8000/v1
      affiant gateway serve --upstream https://llm.example.com/v1 --upstream-key-ref local:LLM_KEY
      affiant gateway serve --upstream http://127.0.0.1:8000/v1 --upstream-concurrency 64
      affiant gateway serve --witnesses witnesses.policy
      affiant gateway serve --erasure-authority officer.jwk
      affiant gateway serve --decisions gateway-decisions.jsonl --decisions-keep 30
      affiant gateway serve --profile-signers signers.json
      affiant gateway serve --mcp-servers tools.json
      affiant gateway serve --upstream https://llm.example.com/v1 --model-alias gpt-4o=gpt-4o-2024-08-06
      affiant gateway serve --upstream http://127.0.0.1:8000/v1 --allow-member chat:request.thinking
      AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... affiant gateway serve --log-objects s3://bucket/prefix

    \b
    Exit codes: 0 stopped in order, 1 refused, 2 usage.
    """
    host, port = _address(listen)
    home = home.absolute()
    launch = Launch(
        home=home,
        platform=platform or platform_socket(home),
        host=host,
        port=port,
        upstreams=_choices(
            upstream,
            upstream_key_ref,
            upstream_ca,
            upstream_concurrency,
            upstream_timeout,
            plain_http=upstream_plain_http,
        ),
        ready=ready_fd,
        user=user or (GATEWAY_USER if is_root() else None),
        bodies_max=body_memory << 20,
        sessions_max=sessions,
        body_max=body_max << 20,
        event_max=event_max << 20,
        witnesses=witnesses,
        erasure_authorities=erasure_authority,
        profile_signers=profile_signers,
        floor=floor,
        log_objects=log_objects,
        mcp_servers=mcp_servers,
        model_aliases=_aliases(model_alias),
        allowed_members=_members_of(allow_member, chat_member),
        decisions=None if decisions is None else decisions.absolute(),
        rotation=Rotation(decisions_size << 20, decisions_keep),
        secret_passphrase=secret_passphrase_file,
    )
    context.exit(launch_gateway(launch))


@gateway.command()
@_home
@_upstream
@_upstream_key_ref
@_upstream_ca
@_upstream_plain_http
@_upstream_concurrency
@_upstream_timeout
@_body_max
@_event_max
@_witnesses
@_authority
@_signers
@_floor
@_mcp_servers
@_model_aliases
@_allowed_members
@_chat_members
@_json
def config(
    *,
    home: Path,
    upstream: tuple[str, ...],
    upstream_key_ref: tuple[str, ...],
    upstream_ca: tuple[Path, ...],
    upstream_plain_http: bool,
    upstream_concurrency: tuple[int, ...],
    upstream_timeout: tuple[str, ...],
    body_max: int,
    event_max: int,
    witnesses: WitnessChoice,
    erasure_authority: tuple[Path, ...],
    profile_signers: Path | None,
    floor: Path | None,
    mcp_servers: Path | None,
    model_alias: tuple[str, ...],
    allow_member: tuple[str, ...],
    chat_member: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print the name and the bytes of the configuration that `serve` would run with; starts nothing.

    The name is what trust files and manifests pin.

    \b
    Example:
      affiant gateway config --upstream https://llm.example.com/v1
      affiant platform trust --gateway-config "$(affiant gateway config --upstream URL | head -1)" > trust.json
    """
    made = planned_config(
        home.absolute(),
        _choices(
            upstream,
            upstream_key_ref,
            upstream_ca,
            upstream_concurrency,
            upstream_timeout,
            plain_http=upstream_plain_http,
        ),
        now=datetime.now(UTC),
        random_bytes=os.urandom,
        body_max=body_max << 20,
        event_max=event_max << 20,
        witnesses=witnesses,
        erasure_authorities=erasure_authority,
        profile_signers=profile_signers,
        floor=floor,
        mcp_servers=mcp_servers,
        model_aliases=_aliases(model_alias),
        allowed_members=_members_of(allow_member, chat_member),
    )
    if as_json:
        print_json({"digest": made.digest, "config": json.loads(made.raw)})
        return
    click.echo(made.digest)
    click.echo(made.raw.decode("utf-8"))


@gateway.command()
@_home
@_json
def status(*, home: Path, as_json: bool) -> None:
    """Print where the gateway of this folder is, and its sessions. Exit code 1 if none answers.

    \b
    Example:
      affiant gateway status --json
    """
    folder = home.absolute() / "gateway"
    sessions = json.loads(_ask(folder, "/v1/sessions"))
    state = json.loads((folder / "gateway.json").read_bytes())
    ready = json.loads(_ask(folder, "/readyz", accept=(200, 503)))["ready"]
    mirror = read_state(folder)
    if as_json:
        print_json({**state, **sessions, "ready": ready, "log_objects": mirror})
        return
    drain = sessions.get("drain", {"state": "serving"})  # a gateway of an older release does not name it
    click.echo(f"{state['url']}  {_readiness(drain, ready=ready)}")
    click.echo(f"configuration {state['config']}")
    click.echo(f"keyset        {state['keyset']}")
    click.echo(f"TLS key       {state['spki']}")
    _show_log(sessions["log"])
    if mirror is not None:
        code = "" if mirror["code"] is None else f" [{mirror['code']}]"
        line = f"objects       {mirror['size'] or 0} leaves in {mirror['url']}, {mirror['state']}{code}"
        click.echo(printable(line))
    for name, turns in sessions["upstreams"].items():
        asked = f"{turns['under_way']} of {turns['limit']} requests under way, {turns['waiting']} wait"
        click.echo(f"upstream      {name}  {asked}")
    for entry in sessions["sessions"]:
        click.echo(f"session {entry['session']}  {entry['state']}")


@gateway.command()
@_home
@click.option(
    "--within",
    type=click.IntRange(0, MAX_DRAIN_S),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Seconds that open sessions have to end by themselves; their supervisors then close them.",
)
@_json
@click.pass_context
def drain(context: click.Context, *, home: Path, within: int, as_json: bool) -> None:
    """Drain the gateway of this folder before an upgrade. It admits no new sessions, and open ones end in order.

    A session that has not ended after --within is closed by its supervisor, with its bundle. At most 20 seconds later
    the gateway closes the remaining sessions as lost. Receipts and bundles are still served after that, until the
    gateway is stopped (SIGTERM). The command may be repeated, also with another bound. Ctrl-C ends this command alone.

    \b
    Examples:
      affiant gateway drain
      affiant gateway drain --within 0 --json
    \b
    Exit codes: 0 drained, 1 refused, 2 usage, 3 drained, but sessions were lost or could not be closed.
    """
    context.exit(drained(home.absolute() / "gateway", within, _ask, as_json=as_json))


@gateway.command()
@_home
@_json
def tools(*, home: Path, as_json: bool) -> None:
    """Print the tools that the gateway's servers serve now, each with the digest that a profile can pin.

    Servers that do not answer are named on standard error; exit code 1 if none does.

    \b
    Examples:
      affiant gateway tools
      affiant gateway tools --json
    """
    found = json.loads(_ask(home.absolute() / "gateway", "/v1/tools"))
    if as_json:
        print_json(found)
    for tool in () if as_json else found["tools"]:
        click.echo(printable(f"{tool['name']}  server: {tool['server']}  schema: {tool['schema']}"))
    for server, code in found["unavailable"].items():
        click.echo(f"{server} does not answer [{code}]", err=True)
    if found["unavailable"] and not found["tools"]:
        sys.exit(EXIT_REFUSED)


def _readiness(drain: Mapping[str, Any], *, ready: bool) -> str:
    if drain["state"] == "serving":
        return "ready" if ready else "not ready"
    return str(drain["state"])


def _show_log(log: dict[str, Any]) -> None:
    click.echo(f"log           {log['size']} leaves, {log['vkey']}")
    if log["witnesses"]:
        when = (
            "never"
            if log["backed"] is None
            else f"{datetime.fromtimestamp(log['backed'], UTC):%Y-%m-%dT%H:%M:%SZ}"
        )
        click.echo(f"cosigned      {log['cosigned'] or 0} leaves, {when}")
    for address, state in log["witnesses"].items():
        click.echo(f"witness       {address}  {state}")


@gateway.command()
@_home
@click.argument("session")
@click.option(
    "--openings",
    "openings",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="KEYFILE",
    help="Print the bundle alone, with what is sealed to this tenant's key opened; repeatable.",
)
def bundle(*, home: Path, session: str, openings: tuple[Path, ...]) -> None:
    """Print the bundle of one SESSION, open or closed, with its sealed disclosures, as JSON.

    That is what `affiant session recover --from` takes, and no bundle for `affiant verify`.

    With a tenant's key (openings.key of the user who started the session) it is a bundle for `affiant verify`, with the
    disclosures that the key opens; what it does not open is counted on standard error.

    \b
    Examples:
      affiant gateway bundle 0o2m0yYbVQkLhX4dJmQ3Ng > session.json
      affiant gateway bundle 0o2m0yYbVQkLhX4dJmQ3Ng --openings openings.key > session.affiant.json
    """
    from affiant.attestation.records.sealed_disclosures_key import read_disclosure_key  # noqa: PLC0415 - as above
    from affiant.attestation.verifier.files.opened_disclosures import Opener, told  # noqa: PLC0415 - only if asked
    from affiant.sandbox.session_state.bundle_out import open_counted, parse_sealed_bundle  # noqa: PLC0415 - as above

    keys = tuple(read_disclosure_key(path) for path in openings)
    answer = _ask(home.absolute() / "gateway", f"/v1/sessions/{session}/bundle")
    if not keys:
        sys.stdout.buffer.write(answer)
        return
    opener = Opener(keys)
    sys.stdout.buffer.write(open_counted(parse_sealed_bundle(answer), opener).to_bytes())
    click.echo(f"disclosures: of the receipts that hide something {told(opener.counts)}", err=True)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 0xFFFF:
        raise click.BadParameter("expected ADDRESS:PORT", param_hint="--listen")
    return host.strip("[]"), int(port)


def _choices(
    urls: tuple[str, ...],
    keys: tuple[str, ...],
    roots: tuple[Path, ...],
    concurrent: tuple[int, ...],
    timeouts: tuple[str, ...],
    *,
    plain_http: bool,
) -> tuple[UpstreamChoice, ...]:
    if len(urls) < max(map(len, (keys, roots, concurrent, timeouts))):
        raise click.UsageError(
            "each --upstream-key-ref, --upstream-ca, --upstream-concurrency and --upstream-timeout belongs to one "
            "--upstream"
        )
    if any(map(lacks_path, urls)):
        click.echo(f"affiant: {PATHLESS}", err=True)
    return tuple(
        UpstreamChoice(url, key, root, most, plain_http, waiting or {})
        for url, key, root, most, waiting in zip_longest(
            urls,
            keys,
            roots,
            concurrent,
            [parse_timeouts(text, code="gateway.settings") for text in timeouts],
        )
    )


def _aliases(given: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    aliases: dict[str, list[str]] = {}
    for text in given:
        model, sign, name = text.partition("=")
        if not (sign and model and name):
            raise click.UsageError(f"--model-alias needs MODEL=NAME: {text[:64]!a}")
        aliases.setdefault(model, []).append(name)
    return aliases


def _members_of(given: tuple[str, ...], of_chat: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    allowed: dict[str, list[str]] = {"chat": list(of_chat)}
    for text in given:
        dialect, colon, name = text.partition(":")
        if not (colon and dialect and name):
            raise click.UsageError(f"--allow-member needs DIALECT:PLACE.NAME: {text[:64]!a}")
        allowed.setdefault(dialect, []).append(name)
    return allowed


def _ask(folder: Path, target: str, *, accept: tuple[int, ...] = (200,), body: bytes | None = None) -> bytes:
    method = "GET" if body is None else "POST"
    try:
        response = request(
            folder / OPERATOR_SOCKET, method, target, body, limit=_MAX_RESPONSE, timeout_s=_TIMEOUT_S
        )
    except OSError as error:
        raise UnreachableError(
            "no gateway serves from this folder",
            where=str(folder),
            hint="Start it: affiant gateway serve",
            code="gateway.unreachable",
        ) from error
    if response.status not in accept:
        click.echo(response.body.decode("utf-8", "replace"), err=True)
        sys.exit(EXIT_REFUSED)
    return response.body
