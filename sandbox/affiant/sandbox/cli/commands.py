"""``affiant run``: a command of an agent in an attested session. Its help loads nothing of what a session needs."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from affiant.command_line import show_error
from affiant.errors import AffiantError
from affiant.folders import default_home
from affiant.lazy_names import loading
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from affiant.sandbox.processes.services import GatewayChoice
    from affiant.sandbox.session.run_report import Detail
    from affiant.sandbox.session.session_plan import SessionRequest, VaultChoice
    from affiant.secrets.store.local_store import StoreKey

__all__ = ["require_compatible", "run", "session_request", "store_key", "variables"]

_PLATFORMS = ("auto", "simulated", "tdx", "dstack")
"""``PlatformName``, which help does not load."""

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _complete_agents(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    from affiant.policy.editor.completion import complete_agents  # noqa: PLC0415 - help must stay cheap

    return complete_agents("profile")(context, parameter, typed)


def variables(
    option: str, values: tuple[str, ...], mark: str = "=", form: str = "NAME=VALUE"
) -> dict[str, str]:
    """The values of an option that names something and says what it is.

    Raises:
        click.BadParameter: a value of another form, or one name with two values.
    """
    pairs: dict[str, str] = {}
    for value in values:
        name, found, rest = value.partition(mark)
        if not found or not name:
            raise click.BadParameter(f"expected {form}, found {value!r}", param_hint=option)
        if pairs.get(name, rest) != rest:
            raise click.BadParameter(f"{name!r} is given twice, with two values", param_hint=option)
        pairs[name] = rest
    return pairs


def require_compatible(*, quiet: bool, verbose: bool, files: Mapping[str, Path | None]) -> None:
    """Return if no two options about what is written contradict each other.

    Raises:
        click.UsageError: two do.
    """
    from affiant.files import is_stream  # noqa: PLC0415 - help must stay cheap

    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose contradict each other")
    named = [(option, path.absolute()) for option, path in files.items() if path is not None]
    for number, (option, path) in enumerate(named):
        for other, same in named[:number]:
            if path == same and not is_stream(path):
                raise click.UsageError(f"{other} and {option} name the same file, {path}")


def _gateway_choice(**options: Any) -> GatewayChoice:
    """The gateway that the options name.

    Raises:
        click.UsageError: two options contradict each other.
    """
    from affiant.sandbox.processes.services import GatewayChoice  # noqa: PLC0415 - help must stay cheap
    from affiant.sandbox.processes.upstream_address import PATHLESS, lacks_path  # noqa: PLC0415 - as above

    choice = GatewayChoice(**options)
    if choice.url is not None and choice.upstreams:
        raise click.UsageError(
            "--upstream belongs to the gateway that is started; --gateway names a running one"
        )
    each = choice.upstream_keys, choice.upstream_roots, choice.upstream_timeouts
    if len(choice.upstreams) < max(choice.plain_http, *map(len, each)):
        raise click.UsageError(
            "--upstream-key-ref, --upstream-ca, --upstream-timeout and --upstream-plain-http each need an --upstream"
        )
    if any(map(lacks_path, choice.upstreams)):
        click.echo(f"affiant: {PATHLESS}", err=True)
    if choice.url is None and choice.config_digests:
        raise click.UsageError("--gateway-config says what --gateway must prove; name it with --gateway URL")
    return choice


def session_request(
    *,
    profile: Path,
    floor: Path | None,
    policy_signature: Path | None,
    agent: str,
    input_: str | None,
    output: Path | None,
    output_diff: Path | None,
    output_branch: str | None,
    runtime: Path | None,
    rootfs: Path | None,
    platform: str,
    gateway: str | None,
    gateway_config: tuple[str, ...],
    upstream: tuple[str, ...],
    upstream_key_ref: tuple[str, ...],
    upstream_ca: tuple[Path, ...],
    upstream_timeout: tuple[str, ...],
    upstream_plain_http: bool,
    min_isolation: str,
    host: tuple[str, ...],
    extra_ca: tuple[Path, ...],
    secret_store: Path | None,
    vault: str | None,
    vault_ca: Path | None,
    vault_token_file: Path | None,
    decisions: Path | None,
    task: tuple[str, ...],
) -> SessionRequest:
    """What the options ask for, without what opens the secret store.

    Raises:
        click.UsageError: two options contradict each other.
    """
    from affiant.attestation.quote.providers.own_platform import PlatformName  # noqa: PLC0415 - help must stay cheap
    from affiant.sandbox.session.session_plan import SessionRequest, parse_input  # noqa: PLC0415 - as above

    chosen = _gateway_choice(
        url=gateway,
        config_digests=frozenset(gateway_config),
        upstreams=upstream,
        upstream_keys=upstream_key_ref,
        upstream_roots=upstream_ca,
        upstream_timeouts=upstream_timeout,
        plain_http=upstream_plain_http,
    )
    folder, place, commit = (None, None, None) if input_ is None else parse_input(input_)
    return SessionRequest(
        profile=profile,
        agent=agent,
        input=folder,
        input_at=place,
        input_commit=commit,
        output=output,
        output_diff=output_diff,
        output_branch=output_branch,
        runtime=runtime,
        rootfs=rootfs,
        min_isolation=IsolationClass(min_isolation),
        platform=PlatformName(platform),
        gateway=chosen,
        hosts={
            name: address.split(",")
            for name, address in variables("--host", host, form="NAME=ADDRESS").items()
        },
        secret_store=secret_store,
        extra_roots=extra_ca,
        vault=_vault(vault, vault_ca, vault_token_file),
        decisions=decisions,
        policy_signature=policy_signature,
        floor=floor,
        task=_task(task),
    )


def _task(values: tuple[str, ...]) -> Mapping[str, object] | None:
    """The task label, whose ``attempt`` is a number; None: the session has none."""
    given = variables("--task", values)
    return {
        name: int(text) if name == "attempt" and text.isascii() and text.isdecimal() else text
        for name, text in given.items()
    } or None


def store_key(request: SessionRequest, home: Path, passphrase_file: Path | None) -> StoreKey | None:
    """What opens the local secret store, where that is no key file: asked for while Ctrl-C still just ends us."""
    from affiant.policy.loading.policy_file import policy_owners  # noqa: PLC0415 - help must stay cheap
    from affiant.sandbox.session.secret_store import asked_store_key  # noqa: PLC0415 - as above
    from affiant.secrets.store.commands import asked_passphrase  # noqa: PLC0415 - as above
    from affiant.secrets.store.local_store_file import passphrase_in  # noqa: PLC0415 - as above
    from affiant.secrets.store.secret_service import SecretService  # noqa: PLC0415 - as above

    ask: Callable[[bool], bytes] | None = asked_passphrase if _has_terminal() else None
    if passphrase_file is not None:
        ask = lambda _new: passphrase_in(passphrase_file)  # noqa: E731 - one of two ways to ask
    return asked_store_key(
        request,
        home / "secrets",
        owners=policy_owners(os.geteuid(), os.environ),
        keyring=SecretService(os.environ.get("DBUS_SESSION_BUS_ADDRESS")),
        ask_passphrase=ask,
    )


def _has_terminal() -> bool:
    """Whether a person can be asked, whatever the standard streams are."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _vault(address: str | None, ca: Path | None, token_file: Path | None) -> VaultChoice | None:
    if address is None and ca is None and token_file is None:
        return None
    if address is None or ca is None or token_file is None:
        raise click.UsageError("--vault, --vault-ca and --vault-token-file belong together")
    from affiant.sandbox.session.session_plan import VaultChoice  # noqa: PLC0415 - help must stay cheap

    return VaultChoice(address=address, ca=ca, token_file=token_file)


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--profile",
    type=_FILE,
    required=True,
    envvar="AFFIANT_PROFILE",
    show_envvar=True,
    help="Permission profiles (YAML).",
)
@click.option(
    "--floor",
    type=_FILE,
    envvar="AFFIANT_FLOOR",
    show_envvar=True,
    help="The organisation's baseline policy. Its denials, limits and approvers hold for the profile.",
)
@click.option(
    "--policy-signature",
    type=_FILE,
    help="A signature over --profile, for a gateway that demands one. Default: FILE.sig.json, if it is there.",
)
@click.option(
    "--agent",
    required=True,
    envvar="AFFIANT_AGENT",
    show_envvar=True,
    help="Which profile of the file.",
    shell_complete=_complete_agents,
)
@click.option(
    "--input",
    "input_",
    metavar="DIR|REPO@REF[:PATH]",
    help="Copy DIR, or the files of a git commit, in at PATH (default: the profile's only path).",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy what the agent changed to this folder.",
)
@click.option(
    "--output-diff",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what the agent changed to this file, as a diff for git apply.",
)
@click.option(
    "--output-branch",
    metavar="NAME",
    help="Commit what the agent changed to this new branch of REPO, on top of REF. REPO's work tree stays as it is.",
)
@click.option(
    "--runtime",
    type=_FOLDER,
    metavar="DIR",
    help="Show DIR read-only at /opt/runtime; its bin/ comes first in PATH. Make it with 'affiant runtime build'.",
)
@click.option(
    "--rootfs",
    type=click.Path(exists=True, path_type=Path),
    help="An image to run in, in place of this machine's /usr: a folder, an OCI layout or a tar archive.",
)
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the session's receipts here as well, hidden values opened.",
)
@click.option(
    "--platform",
    type=click.Choice(list(_PLATFORMS)),
    default="auto",
    show_default=True,
    help="Where the TD comes from; auto: what this machine is. TDX has not been run on hardware.",
)
@click.option("--gateway", metavar="URL", help="Use this gateway instead of starting one.")
@click.option(
    "--gateway-config",
    metavar="SHA256",
    multiple=True,
    help="A configuration that --gateway may prove (sha256:...); also those of trust.json.",
)
@click.option(
    "--upstream",
    metavar="URL",
    multiple=True,
    help="Model server for this run, up to /v1. Default: a built-in test echo.",
)
@click.option(
    "--upstream-key-ref",
    metavar="local:NAME",
    multiple=True,
    help="The model server's API key, by its name in the secret store; in the order of --upstream.",
)
@click.option(
    "--upstream-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="The only certificate to trust for the model server, PEM; in the order of --upstream.",
)
@click.option(
    "--upstream-timeout",
    metavar="HEAD[,IDLE[,TOTAL]]",
    multiple=True,
    help="Seconds to wait for the head of a response, between two reads, and for its end; in the order of --upstream. "
    "Default: 600,300,3600.",
)
@click.option(
    "--upstream-plain-http",
    is_flag=True,
    help="Allow a model server on another machine over plain http: prompts are readable on the way.",
)
@click.option(
    "--min-isolation",
    type=click.Choice([each.value for each in IsolationClass]),
    default=IsolationClass.USERSPACE_KERNEL.value,
    show_default=True,
    help="Minimum isolation; below it nothing runs.",
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="AFFIANT_HOME",
    default=default_home,
    show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
    help="State folder.",
)
@click.option(
    "--host", metavar="NAME=ADDRESS", multiple=True, help="A private host, and where it may be dialled."
)
@click.option("--extra-ca", type=_FILE, multiple=True, help="Certificate authorities of private hosts (PEM).")
@click.option("--vault", metavar="URL", help="Where vault: references are resolved (https://host[:port]).")
@click.option("--vault-ca", type=_FILE, help="Certificate authorities of --vault (PEM); no others count.")
@click.option("--vault-token-file", type=_FILE, help="A private file (0600) that holds a token for --vault.")
@click.option(
    "--secret-store", type=_FOLDER, help="Local secret store; default: secrets in the state folder."
)
@click.option(
    "--secret-passphrase-file",
    type=_FILE,
    help="A private file (0600) with the passphrase of the local secret store; default: asked for at the terminal.",
)
@click.option(
    "--decisions",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append each decision about models, tools, egress, secrets and files to this file, for 'affiant policy "
    "learn' and 'simulate'. If it cannot be written, the session ends.",
)
@click.option(
    "--task",
    metavar="NAME=VALUE",
    multiple=True,
    help="Label the session: workflow, task, attempt (a number) or parent. Receipts carry it salted.",
)
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the command.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds until the command is ended."
)
@click.option(
    "--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write a summary here."
)
@click.option(
    "--raw",
    is_flag=True,
    help="On a terminal, pass the command's control characters on. Default: all but colours are shown escaped.",
)
@click.option("--quiet", is_flag=True, help="Print only errors, warnings and changes of the session.")
@click.option("--verbose", is_flag=True, help="Say each step, and show what the services write.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    *,
    home: Path,
    bundle: Path | None,
    secret_passphrase_file: Path | None,
    env: tuple[str, ...],
    timeout: float | None,
    json_path: Path | None,
    raw: bool,
    quiet: bool,
    verbose: bool,
    command: tuple[str, ...],
    **asked: Any,
) -> None:
    """Run COMMAND as an agent in an attested session, and leave a receipt for everything that it did.

    The command's input, output and exit code are its own. 125: affiant reported an error; 126: the
    command cannot be run; 127: it was not found; 128 + n: signal n ended it. Ctrl-C reaches all of its
    processes; a second one kills them. Ctrl-Z stops them until they are continued.

    \b
    Examples:
      affiant run --profile profiles.yaml --agent code_implementer --input . -- python3 agent.py
      affiant run --profile profiles.yaml --agent log_analyzer --input logs:/var/log -- sh -c 'wc -l *'
      affiant run --profile p.yaml --agent dev --input src --output out --bundle run.affiant.json -- make test
      affiant run --profile p.yaml --agent dev --decisions decisions.jsonl -- python3 agent.py
    """
    with loading():
        from affiant.sandbox.base.errors import OutputPlaceError  # noqa: PLC0415 - help must stay cheap
        from affiant.sandbox.cli.interrupted_sessions import tell_leftovers  # noqa: PLC0415 - as above
        from affiant.sandbox.processes.home import open_home  # noqa: PLC0415 - as above
        from affiant.sandbox.session.foreground_command import (  # noqa: PLC0415 - as above
            EXIT_OURS,
            RunOptions,
            open_standard_streams,
            run_once,
        )

    open_standard_streams()
    files = {"--bundle": bundle, "--json": json_path}
    files |= {"--decisions": asked["decisions"], "--output-diff": asked["output_diff"]}
    require_compatible(quiet=quiet, verbose=verbose, files=files)
    request = session_request(**asked)
    options = RunOptions(
        home=home,
        bundle=bundle,
        summary=json_path,
        env=variables("--env", env),
        timeout_s=timeout,
        raw=raw,
        detail=_detail(quiet=quiet, verbose=verbose),
        show_services=verbose,
    )
    try:
        tell_leftovers(open_home(home))
        request = replace(request, store_key=store_key(request, home, secret_passphrase_file))
        outcome = run_once(request, command, options)
    except (
        KeyboardInterrupt,
        click.Abort,
    ) as error:  # while leftovers were ended, or a passphrase was asked for
        raise click.exceptions.Exit(128 + signal.SIGINT) from error
    except AffiantError as error:
        show_error(error)
        with suppress(OutputPlaceError):  # what happened first is what the user must hear
            _summarise(json_path, {"exit_code": EXIT_OURS, "refused": error.to_json()})
        raise click.exceptions.Exit(EXIT_OURS) from error
    try:
        _summarise(json_path, outcome.to_json())
    except OutputPlaceError as error:
        error.hint = f"The command ended with {outcome.exit_code}"
        if outcome.bundle is not None:
            error.hint += f"; the receipts are in {outcome.bundle}"
        show_error(error)
        raise click.exceptions.Exit(EXIT_OURS) from error
    raise click.exceptions.Exit(outcome.exit_code)


def _detail(*, quiet: bool, verbose: bool) -> Detail:
    """How much is said; on a terminal, each step of the start."""
    from affiant.sandbox.session.run_report import Detail  # noqa: PLC0415 - help must stay cheap

    if quiet:
        return Detail.QUIET
    return Detail.ALL if verbose else Detail.STEPS if sys.stderr.isatty() else Detail.SUMMARY


def _summarise(path: Path | None, members: Mapping[str, object]) -> None:
    if path is not None:
        from affiant.sandbox.base.user_files import write_user_file  # noqa: PLC0415 - help must stay cheap

        write_user_file(path, (json.dumps(members, indent=2, sort_keys=True) + "\n").encode("ascii"))
