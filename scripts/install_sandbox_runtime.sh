#!/usr/bin/env bash
# Finds or installs what a sandbox is made of, and says what it does.
#
#   runsc (gVisor, 2024 or newer)  the default isolation: a kernel in user space
#   bwrap (bubblewrap)             the fallback: namespaces, Landlock, seccomp
#   ip    (iproute2)               joins the sandbox to its proxy, and to nothing else
#   nft   (nftables)               for an operator's own packet filters; not needed by a session
#
# As root, missing packages come from the package sources that this machine already has. Debian 12 carries a
# recent runsc only in its backports: that suite is read through a private source list in a temporary folder,
# from the same mirror and with the same keyring, so the machine's own lists and caches stay as they are.
# AFFIANT_INSTALL=no forbids every installation. Without root the one command to run is printed.
#
# Exit status: 0 when a sandbox can be had (perhaps only the fallback), 1 when an installation failed.
set -euo pipefail

readonly OLDEST_RUNSC=2024
private=""

say() { printf 'sandbox runtime: %s\n' "$*"; }

cleanup() { if [[ -n "$private" ]]; then rm -rf -- "$private"; fi; }
trap cleanup EXIT

is_root() { ((EUID == 0)); }

have() { PATH="$PATH:/usr/sbin:/sbin:/usr/local/go/bin" command -v -- "$1" >/dev/null 2>&1; }

# The year in a version such as "release-20240729.0", or Debian's "0.0~20240729.0-4~bpo12+1"; 0: unknown.
year_of() {
  if [[ "$1" =~ (20[0-9][0-9])[01][0-9][0-3][0-9] ]]; then printf '%s' "${BASH_REMATCH[1]}"; else printf 0; fi
}

# The date and number in a version, as records name it: 20240729.0; empty: none.
release_of() {
  if [[ "$1" =~ 20[0-9][0-9][01][0-9][0-3][0-9]\.[0-9]+ ]]; then printf '%s' "${BASH_REMATCH[0]}"; fi
}

# Says that a newer gVisor can be built, where Go is here, and by which command; builds nothing.
offer_gvisor() {
  local newest found command="make gvisor"
  have go || return 0
  is_root || command="sudo make gvisor"
  newest="$(bash "$(dirname -- "${BASH_SOURCE[0]}")/build_gvisor.sh" --release)"
  found="$(release_of "$(runsc --version 2>/dev/null || true)")"
  if [[ -z "$found" || "${found%%.*}" -lt "${newest%%.*}" ]]; then
    say "gVisor: ${found:-none} is here, and Go can build $newest in some minutes: $command"
  fi
}

runsc_is_recent() {
  have runsc || return 1
  local text
  text="$(runsc --version 2>/dev/null || true)"
  local year
  year="$(year_of "$text")"
  if [[ "$year" == 0 ]] && have dpkg-query; then # Debian's build does not always say its date itself
    # shellcheck disable=SC2016 # the dollar sign is dpkg-query's
    year="$(year_of "$(dpkg-query -W -f '${Version}' runsc 2>/dev/null || true)")"
  fi
  ((year >= OLDEST_RUNSC))
}

missing_packages() {
  have bwrap || printf 'bubblewrap\n'
  have ip || printf 'iproute2\n'
  have nft || printf 'nftables\n'
  runsc_is_recent || printf 'runsc\n'
}

# This machine's archive entries as "uri<TAB>suite<TAB>components<TAB>keyring", from both source formats.
machine_sources() {
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [[ -r "$file" ]]; then one_line_sources <"$file"; fi
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    if [[ -r "$file" ]]; then deb822_sources <"$file"; fi
  done
}

one_line_sources() {
  awk '
    $1 != "deb" { next }
    {
      line = $0; keyring = ""
      if (match(line, /\[[^]]*\]/)) {
        options = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
        if (match(options, /signed-by=[^ ]+/)) keyring = substr(options, RSTART + 10, RLENGTH - 10)
      }
      n = split(line, word, " ")
      components = ""
      for (i = 4; i <= n && word[i] !~ /^#/; i++) components = components (components == "" ? "" : " ") word[i]
      if (n >= 4) printf "%s\t%s\t%s\t%s\n", word[2], word[3], components, keyring
    }'
}

deb822_sources() {
  awk '
    function flush(   u, s, i, j, nu, ns) {
      if (types ~ /(^| )deb( |$)/ && enabled != "no") {
        nu = split(uris, u, " "); ns = split(suites, s, " ")
        for (i = 1; i <= nu; i++) for (j = 1; j <= ns; j++)
          printf "%s\t%s\t%s\t%s\n", u[i], s[j], components, keyring
      }
      types = uris = suites = components = keyring = enabled = ""
    }
    /^#/ { next }
    /^[[:space:]]*$/ { flush(); next }
    {
      name = tolower($1); value = $0; sub(/^[^:]*:[[:space:]]*/, "", value)
      if (name == "types:") types = value
      else if (name == "uris:") uris = value
      else if (name == "suites:") suites = value
      else if (name == "components:") components = value
      else if (name == "signed-by:") keyring = (value ~ /^\//) ? value : ""
      else if (name == "enabled:") enabled = tolower(value)
    }
    END { flush() }'
}

# One-line entries of the distribution itself (component "main"), and on Debian its backports beside them.
private_list() {
  local codename="$1" distribution="$2" uri suite components keyring option
  machine_sources | while IFS=$'\t' read -r uri suite components keyring; do
    [[ " $components " == *" main "* ]] || continue
    option=""
    if [[ -n "$keyring" ]]; then option="[signed-by=$keyring] "; fi
    case "$suite" in
      "$codename")
        printf 'deb %s%s %s %s\n' "$option" "$uri" "$suite" "$components"
        if [[ "$distribution $codename" == "debian bookworm" ]]; then # later releases have it themselves
          printf 'deb %s%s %s-backports main\n' "$option" "$uri" "$codename"
        fi
        ;;
      "$codename-updates" | "$codename-security")
        printf 'deb %s%s %s %s\n' "$option" "$uri" "$suite" "$components"
        ;;
    esac
  done | sort -u
}

# apt over the private list; the machine's lists and package caches are neither read nor written.
private_apt() {
  apt-get -q -y \
    -o Dir::Etc::sourcelist="$private/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$private/lists" -o Dir::Cache="$private/cache" \
    -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "$@"
}

# The newest version of runsc in the private lists that is recent enough; empty: none.
recent_runsc_version() {
  local version
  apt-cache -o Dir::Etc::sourcelist="$private/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$private/lists" -o Dir::Cache="$private/cache" madison runsc 2>/dev/null |
    awk -F'|' '{ gsub(/ /, "", $2); print $2 }' | while read -r version; do
    if (($(year_of "$version") >= OLDEST_RUNSC)); then
      printf '%s\n' "$version"
      break
    fi
  done
}

install_missing() {
  local -a wanted=()
  local package version ID="" VERSION_CODENAME=""
  # shellcheck disable=SC1091 # the machine's own description of itself
  . /etc/os-release
  private="$(mktemp -d)"
  mkdir -p "$private/lists/partial" "$private/cache/archives/partial"
  private_list "$VERSION_CODENAME" "$ID" >"$private/sources.list"
  if [[ ! -s "$private/sources.list" ]]; then
    say "this machine has no package source for ${ID:-its system} ${VERSION_CODENAME:-} to install from"
    return 1
  fi
  say "reading this machine's package sources through a private list (its own lists stay as they are)"
  private_apt update >"$private/update.log" 2>&1 || { cat "$private/update.log" >&2; return 1; }
  for package in "$@"; do
    if [[ "$package" == runsc ]]; then
      version="$(recent_runsc_version)"
      if [[ -z "$version" ]]; then
        say "no runsc of $OLDEST_RUNSC or newer in these sources; gVisor has to be installed by hand"
        continue
      fi
      package="runsc=$version"
    fi
    wanted+=("$package")
  done
  if ((${#wanted[@]} == 0)); then return 0; fi
  say "installing: ${wanted[*]}"
  DEBIAN_FRONTEND=noninteractive private_apt install --no-install-recommends "${wanted[@]}" \
    >"$private/install.log" 2>&1 || { cat "$private/install.log" >&2; return 1; }
}

report() {
  if runsc_is_recent && have ip; then
    say "gVisor: ready ($(runsc --version 2>/dev/null | head -n 1))"
  elif have bwrap; then
    say "gVisor: not here; falling back to bubblewrap (asked for with --min-isolation namespace)"
  else
    say "gVisor: not here"
  fi
  offer_gvisor
  if have bwrap; then say "bubblewrap: ready ($(bwrap --version))"; else say "bubblewrap: not here"; fi
}

main() {
  local -a missing=()
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    say "nothing to install"
  elif [[ "${AFFIANT_INSTALL:-}" == no ]]; then
    say "missing: ${missing[*]} (AFFIANT_INSTALL=no: nothing is installed)"
  elif ! have apt-get; then
    say "missing: ${missing[*]}; this machine has no apt-get: install them with its own package tool"
  elif ! is_root; then
    say "missing: ${missing[*]}. To install them, run this one command:"
    say "  sudo bash '$(realpath -- "${BASH_SOURCE[0]}")'"
  else
    install_missing "${missing[@]}"
  fi
  report
}

# Sourced, the file only defines its functions.
if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then main "$@"; fi
