#!/usr/bin/env bash
# Finds or installs what a few tests are held against, and says what it does.
#
#   swtpm        a TPM 2.0 in software, for the TPM client
#   tpm2-tools   fills it, and is the second opinion
#   versitygw    an S3 server over a folder, for the log's copy; named, not installed: it is built by Go
#   go, cargo    build the programs in tests/readers, other projects' readers of our formats; named, not installed
#   openapi-typescript, openapi-fetch, typescript: a client of `affiant session serve`; named, not installed
#   openai, ai, @ai-sdk/openai: packages for Node.js that speak to models in a session; named, not installed
#   transformers with torch: an engine with a model of random weights; named, not installed (6 GB)
#   srt          Anthropic's sandbox-runtime, which reads the settings that policies are exported to; named, not installed
#
# Nothing that runs needs them, and the tests say that they are skipped without them: so that this never fails.
# Installs as root on a machine with apt-get, from the package sources that it already has; AFFIANT_INSTALL=no forbids it.
set -euo pipefail

say() { printf 'test tools: %s\n' "$*"; }

kept=$HOME/.cache/affiant-tests
if [[ -z ${AFFIANT_VERSITYGW:-} && ! -x $kept/versitygw ]] && ! command -v versitygw >/dev/null; then
    say "tests against a real S3 server are skipped without versitygw" \
        "(GOBIN=$kept go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)"
fi
if [[ -z ${AFFIANT_SRT:-} && ! -d $kept/node_modules/@anthropic-ai/sandbox-runtime ]]; then
    say "exported settings are not read by srt without it" \
        "(npm install --prefix $kept @anthropic-ai/sandbox-runtime@0.0.83)"
fi
if [[ ! -d $kept/node_modules/openapi-typescript ]]; then
    say "no client in TypeScript is generated without its tools (npm install --prefix $kept" \
        "openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 @types/node@20)"
fi
if [[ ! -d $kept/node_modules/@ai-sdk/openai ]]; then
    say "no packages of npm speak to a model in a session without them (npm install --prefix $kept" \
        "openai@6.49.0 ai@6.0.326 @ai-sdk/openai@3.0.141)"
fi
if [[ -z ${AFFIANT_TRANSFORMERS:-} && ! -x $kept/engine/bin/transformers ]]; then
    say "no real engine answers a session without one (python3 -m venv $kept/engine &&" \
        "$kept/engine/bin/pip install 'transformers[serving]==5.23.0' torch)"
fi
command -v go >/dev/null || [[ -x /usr/local/go/bin/go ]] || say "quotes are not held against go-tdx-guest without go"
command -v cargo >/dev/null || [[ -x $HOME/.cargo/bin/cargo ]] ||
    say "attestation results are not read by veraison's crate ear without cargo"
missing=()
command -v swtpm >/dev/null || missing+=(swtpm)
command -v tpm2_createprimary >/dev/null || missing+=(tpm2-tools)
if ((${#missing[@]} == 0)); then
    exit 0
fi
if ((EUID != 0)) || [[ ${AFFIANT_INSTALL:-yes} == no ]] || ! command -v apt-get >/dev/null; then
    say "tests of the TPM client are skipped without: ${missing[*]} (as root: apt-get install ${missing[*]})"
    exit 0
fi
say "installing ${missing[*]}"
install() { DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${missing[@]}" >/dev/null; }
install 2>/dev/null || { apt-get update --quiet >/dev/null && install; } ||
    say "could not be installed; tests of the TPM client are skipped"
