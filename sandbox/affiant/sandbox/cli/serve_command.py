"""``affiant session serve``: sessions over HTTP, for programs in any language. Its help loads no server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from affiant.lazy_names import loading
from affiant.sandbox.cli.commands import run, session_request, store_key
from affiant.sandbox.cli.interrupted_sessions import tell_leftovers
from affiant.sandbox.processes.home import open_home

if TYPE_CHECKING:
    from affiant.sandbox.session.session_plan import SessionRequest

__all__ = ["serve"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OF_TEMPLATE: Final = frozenset(
    {
        "extra_ca",
        "floor",
        "gateway",
        "gateway_config",
        "home",
        "host",
        "min_isolation",
        "platform",
        "policy_signature",
        "profile",
        "rootfs",
        "runtime",
        "secret_passphrase_file",
        "secret_store",
        "upstream",
        "upstream_ca",
        "upstream_key_ref",
        "upstream_plain_http",
        "upstream_timeout",
        "vault",
        "vault_ca",
        "vault_token_file",
    }
)
"""Options of `affiant run` that are the same of every session; what differs, each caller says."""
_OF_NO_SESSION: Final[Mapping[str, Any]] = {
    "agent": "",
    "task": (),
    **dict.fromkeys(("input_", "output", "output_diff", "output_branch", "decisions")),
}
_LISTEN: Final = "127.0.0.1:8470"
_DAY_S: Final = 86_400


def _served(**given: Any) -> None:
    with loading():
        from affiant.sandbox.session_server.http_server import (  # noqa: PLC0415 - an extra
            Listen,
            openid_callers,
            serve_sessions,
            token_callers,
        )
        from affiant.sandbox.session_server.owned_sessions import Bounds  # noqa: PLC0415 - as above

    token_file, issuer, audience = (
        given.pop("token_file"),
        given.pop("oidc_issuer"),
        given.pop("oidc_audience"),
    )
    subjects, oidc_ca = frozenset(given.pop("oidc_subject")), given.pop("oidc_ca")
    host, port = _address(given.pop("listen"))
    listen = Listen(host, port, given.pop("tls_cert"), given.pop("tls_key"))
    ttl, most_ttl = given.pop("ttl"), given.pop("max_ttl")
    if ttl > most_ttl:
        raise click.UsageError(f"--ttl {ttl} is above --max-ttl {most_ttl}. Give a shorter --ttl.")
    bounds = Bounds(
        ttl_s=ttl,
        most_ttl_s=most_ttl,
        each=given.pop("sessions_each"),
        together=given.pop("sessions"),
    )
    if (token_file is None) == (issuer is None):
        raise click.UsageError(
            "Say who may call: --token-file FILE, or --oidc-issuer URL with --oidc-subject."
        )
    if issuer is None:
        if audience or subjects or oidc_ca:
            raise click.UsageError("--oidc-audience, --oidc-subject and --oidc-ca belong to --oidc-issuer.")
        callers = token_callers(token_file)
    else:
        callers = openid_callers(issuer, audience or "", subjects, ca=oidc_ca)
    passphrase, place = given.pop("secret_passphrase_file"), given.pop("home")
    template = session_request(**_OF_NO_SESSION, **given)
    home = open_home(place)
    tell_leftovers(home)
    template = _with_store_key(template, home.path, passphrase)
    announce = lambda url: click.echo(f"affiant: sessions at {url}", err=True)  # noqa: E731 - one line, said once
    serve_sessions(listen, home, template, bounds=bounds, callers=callers, announce=announce)


def _with_store_key(template: SessionRequest, home: Path, passphrase: Path | None) -> SessionRequest:
    """``template`` with what opens the secret store, which is asked for now, if any profile needs it."""
    from affiant.policy.loading.policy_file import policy_owners, read_policy_file  # noqa: PLC0415 - as above

    owners = policy_owners(os.geteuid(), os.environ)
    profiles = read_policy_file(template.profile, owners=owners, floor=template.floor).profiles
    for name in profiles.profiles:
        key = store_key(replace(template, agent=name), home, passphrase)
        if key is not None:
            return replace(template, store_key=key)
    return template


def _address(text: str) -> tuple[str, int]:
    host, mark, port = text.rpartition(":")
    if not mark or not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter("expected ADDRESS:PORT", param_hint="--listen")
    return host.removeprefix("[").removesuffix("]"), int(port)


serve = click.Command(
    "serve",
    callback=_served,
    params=[
        click.Option(["--listen"], default=_LISTEN, show_default=True, help="Address and port; port 0: any."),
        click.Option(["--tls-cert"], type=_FILE, help="PEM certificate chain; with --tls-key."),
        click.Option(["--tls-key"], type=_FILE, help="PEM private key of the certificate."),
        click.Option(
            ["--token-file"],
            type=click.Path(dir_okay=False, path_type=Path),
            help="A private file (0600) with the bearer token of all callers; made if it is not there.",
        ),
        click.Option(["--oidc-issuer"], metavar="URL", help="Accept tokens of this OpenID issuer."),
        click.Option(["--oidc-audience"], metavar="TEXT", help="What the issuer's tokens must be for."),
        click.Option(
            ["--oidc-subject"], metavar="TEXT", multiple=True, help="A subject that may call; repeatable."
        ),
        click.Option(["--oidc-ca"], type=_FILE, help="Certificate authorities of the issuer (PEM)."),
        click.Option(
            ["--ttl"],
            type=click.IntRange(1),
            default=900,
            show_default=True,
            metavar="SECONDS",
            help="Seconds that a session lives, where its caller names none.",
        ),
        click.Option(
            ["--max-ttl"],
            type=click.IntRange(1, 30 * _DAY_S),
            default=_DAY_S,
            show_default=True,
            metavar="SECONDS",
            help="The most that a caller may ask for.",
        ),
        click.Option(
            ["--sessions"],
            type=click.IntRange(1, 1000),
            default=64,
            show_default=True,
            help="Sessions of all callers at once.",
        ),
        click.Option(
            ["--sessions-each"],
            type=click.IntRange(1, 1000),
            default=16,
            show_default=True,
            help="Sessions of one caller at once.",
        ),
        *(param for param in run.params if param.name in _OF_TEMPLATE),
    ],
    help="""Serve sessions over HTTP: create, exec, files, ports, stop. GET /openapi.json describes it all.

    A session belongs to the caller who created it. Profiles are those of --profile: a caller chooses an agent of it.
    Session hosts hold the sessions, so these outlive this server. Stop it with SIGTERM.

    \b
    Examples:
      affiant session serve --profile profiles.yaml --token-file token
      affiant session serve --profile profiles.yaml --listen 0.0.0.0:8470 --tls-cert c.pem --tls-key k.pem \\
        --oidc-issuer https://id.example --oidc-audience affiant --oidc-subject alice

    \b
    Exit codes: 0 stopped in order, 1 error, 2 usage.
    """,
)
