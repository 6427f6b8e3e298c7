#!/usr/bin/env bash
# Builds gVisor's runsc with Go, at the one version below, and installs it as /usr/local/bin/runsc, which is used before the
# distribution's. Go checks the source against its checksum database. Needs Go and root; AFFIANT_INSTALL=no forbids it.
# Run again with the same version it does nothing.
set -euo pipefail

# A commit of gVisor's branch for Go. Its date is what records name as the release.
readonly VERSION=v0.0.0-20260905035102-160fafc42237
readonly RELEASE="${VERSION:7:8}.0"
readonly PLACE=${AFFIANT_RUNSC_PLACE:-/usr/local/bin}
PATH="$PATH:/usr/local/go/bin" # where Go's own archive is unpacked, and no PATH of root has it

say() { printf 'gVisor: %s\n' "$*"; }

main() {
  if [[ "${1:-}" == --release ]]; then
    printf '%s\n' "$RELEASE"
    return
  fi
  if [[ -x "$PLACE/runsc" && "$("$PLACE/runsc" --version 2>/dev/null)" == *"$RELEASE"* ]]; then
    say "$RELEASE is installed in $PLACE"
    return
  fi
  if [[ "${AFFIANT_INSTALL:-}" == no ]]; then
    say "not built (AFFIANT_INSTALL=no: nothing is installed)"
    return 1
  fi
  if ! command -v go >/dev/null; then
    say "Go is missing; it builds runsc"
    return 1
  fi
  if [[ ! -w "$PLACE" ]]; then
    say "$PLACE cannot be written to; run this as root: make gvisor"
    return 1
  fi
  say "building runsc $RELEASE with $(go version); this takes some minutes"
  folder="$(mktemp -d)"
  trap 'rm -rf -- "$folder"' EXIT
  GOBIN="$folder" CGO_ENABLED=0 go install -trimpath -buildvcs=false \
    -ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=go-$RELEASE" "gvisor.dev/gvisor/runsc@$VERSION"
  install -m 0755 "$folder/runsc" "$PLACE/runsc"
  say "installed $("$PLACE/runsc" --version | head -n 1) in $PLACE"
}

main "$@"
