#!/usr/bin/env bash
# Makes this checkout ready: a virtual environment with every extra, the sandbox runtime, the second verifier's page (where
# Node is), the release manifest.
# Idempotent: what is there and fits is left alone. Says what it installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=${PYTHON:-python3}
VENV=.venv
STAMP=$VENV/.affiant-setup

say() { printf 'setup: %s\n' "$*"; }

require_python() {
    if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        say "expected Python 3.11 or later as '$PYTHON', found: $("$PYTHON" --version 2>&1 || echo none)"
        say "install it, or name one: make PYTHON=/path/to/python3 ..."
        exit 1
    fi
}

make_venv() {
    local wanted
    wanted=$(sha256sum pyproject.toml requirements.lock hatch_build.py 2>/dev/null | sha256sum | cut -d' ' -f1)
    if [[ -x $VENV/bin/python && -f $STAMP && $(<"$STAMP") == "$wanted $PWD" ]]; then
        return
    fi
    if [[ ! -x $VENV/bin/python ]]; then
        say "making $VENV"
        if ! "$PYTHON" -m venv "$VENV" 2>/dev/null; then
            rm -rf "$VENV"
            install_venv_package
            "$PYTHON" -m venv "$VENV"
        fi
    fi
    say "installing what requirements.lock names, by its hashes, into $VENV"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
    printf '%s' "$wanted $PWD" >"$STAMP"
}

install_venv_package() {
    local package
    package="python$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [[ $(id -u) == 0 && ${AFFIANT_INSTALL:-yes} != no ]] && command -v apt-get >/dev/null; then
        say "installing the package $package"
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet "$package" >/dev/null ||
            { apt-get update --quiet >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet "$package" >/dev/null; }
    else
        say "Python's venv module is missing; run: apt-get install $package"
        exit 1
    fi
}

require_python
make_venv
# Services run as users who cannot write here: without this they would compile everything at each start.
"$VENV/bin/python" -m compileall -q attestation/affiant policy/affiant secrets/affiant sandbox/affiant gateway/affiant
bash scripts/install_sandbox_runtime.sh
bash scripts/build_verifier_page.sh || [[ $? == 77 ]] # without Node everything else works
"$VENV/bin/python" -m affiant.attestation.release write >/dev/null
