#!/usr/bin/env bash
# Makes the second verifier's page from its modules. Exits with 77 where Node 20 or later is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PAGE=attestation/verifier-js/page/affiant-verifier.html

say() { printf 'verifier page: %s\n' "$*"; }

version=$(node --version 2>/dev/null || echo none)
major=${version#v}
major=${major%%.*}
if [[ ! $major =~ ^[0-9]+$ ]] || ((major < 20)); then
    say "not built: expected Node 20 or later as 'node', found: $version"
    say "install Node, then run: make verifier-page"
    exit 77
fi
node attestation/verifier-js/build_page.mjs
say "built $PAGE"
