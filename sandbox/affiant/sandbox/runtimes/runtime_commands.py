"""``affiant runtime``: environments for ``affiant run --runtime``, built and checked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from affiant.command_line import Group, print_json, printable
from affiant.lazy_names import loading

__all__ = ["runtime"]

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def runtime() -> None:
    """Build and check the environments that agents run in.

    An environment is a folder with Python or Node packages. `affiant run --runtime DIR` shows it read-only at
    /opt/runtime, and the session's receipts name its digest.

    \b
    Examples:
      affiant runtime build -r requirements.txt -o runtime
      affiant run --runtime runtime --profile profiles.yaml --agent dev --input . -- python3 agent.py
    """


@runtime.command("build")
@click.option(
    "-r",
    "--requirements",
    type=_FILE,
    multiple=True,
    required=True,
    help="requirements.txt, pyproject.toml or package.json; may be repeated.",
)
@click.option("-o", "--output", type=_FOLDER, required=True, metavar="DIR", help="The folder to build.")
@click.option("--extra", multiple=True, metavar="NAME", help="Also an extra of the pyproject.toml.")
@click.option(
    "--python",
    type=_FILE,
    default="/usr/bin/python3",
    show_default=True,
    help="The Python that the sandbox shows; below /usr.",
)
@click.option("--rebuild", is_flag=True, help="Build again: takes newer versions, replaces a changed build.")
@click.option("--quiet", is_flag=True, help="Print only errors and the result.")
@_json_option
def build(
    *,
    requirements: tuple[Path, ...],
    output: Path,
    extra: tuple[str, ...],
    python: Path,
    rebuild: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Install packages into DIR, from wheels and registry archives alone.

    No package's own code runs on this machine: a package without a wheel is an error that names it, and npm's install
    scripts do not run. The machine's configuration of pip and npm says where packages come from. DIR is whole or
    unchanged, also after Ctrl-C; a second build of the same files does nothing. A folder that this command did not
    make is never replaced. Do not rebuild a folder while a session uses it.

    \b
    Examples:
      affiant runtime build -r requirements.txt -o runtime
      affiant runtime build -r pyproject.toml --extra agent -o runtime
      affiant runtime build -r package.json -o runtime
    """
    with loading():
        from affiant.sandbox.runtimes.build import build_runtime  # noqa: PLC0415 - help must stay cheap
        from affiant.sandbox.runtimes.child_tool import ended_on_sigterm  # noqa: PLC0415 - as above

    def say(line: str) -> None:
        steps = ("Collecting ", "Processing ", "installing ", "compiling", "computing ")
        if not quiet and sys.stderr.isatty() and line.startswith(steps):
            click.echo(f"affiant: {printable(line[0].lower() + line[1:])}", err=True)

    with ended_on_sigterm():
        built, made = build_runtime(
            requirements,
            output.absolute(),
            python=python,
            extras=extra,
            rebuild=rebuild,
            environment=os.environ,
            progress=say,
        )
    unfinished = sorted({str(each["name"]) for each in built.packages if each.get("install_script")})
    if as_json:
        print_json({
            "path": str(output),
            "digest": built.digest,
            "built": made,
            "made_of": built.made_of,
            "packages": list(built.packages),
        })  # fmt: skip
        return
    state = "Built" if made else "Nothing to do: already built:"
    click.echo(f"{state} {printable(str(output))}, {len(built.packages)} packages")
    click.echo(f"Digest {built.digest}")
    if unfinished:
        click.echo(f"Install scripts that did not run: {printable(', '.join(unfinished))}")


@runtime.command("check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--rootfs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The unpacked image that it will be used with. Default: this machine's /usr.",
)
@click.option("--program", metavar="NAME", help="Also a program of its bin/.")
@_json_option
def check(folder: Path, *, rootfs: Path | None, program: str | None, as_json: bool) -> None:
    """Say whether the environment in DIR works in a sandbox, and print its digest.

    `affiant run` makes the same checks before a session starts. Any folder can be checked, such as a virtual
    environment that another tool made.

    \b
    Examples:
      affiant runtime check .venv
      affiant runtime check .venv --program pytest
    """
    with loading():
        from affiant.sandbox.runtimes.runtime_check import require_program, require_usable  # noqa: PLC0415
        from affiant.sandbox.workspace.walk import runtime_digest  # noqa: PLC0415 - help must stay cheap

    root = Path("/") if rootfs is None else rootfs.resolve()
    require_usable(folder, root=root)
    if program is not None:
        require_program(folder, program, root=root)
    digest = runtime_digest(folder)
    if as_json:
        print_json({"path": str(folder), "digest": digest})
    else:
        click.echo(f"{printable(str(folder))} works in the sandbox")
        click.echo(f"Digest {digest}")
