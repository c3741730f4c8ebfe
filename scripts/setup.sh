#!/bin/sh
# Make this checkout ready to run: system packages, .venv, the project in it.
#
#   scripts/setup.sh [--tests | --soak]     --tests adds tests/packages.txt, --soak tests/soak-packages.txt, too
#
# Does nothing (and asks for nothing) where all is there already. The packages are checked against
# dpkg on every call; the stamp in .venv only saves pip's work.
set -eu

cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# -- system packages -----------------------------------------------------------------------------

listed() { # FILE... -> the package names in them
    sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$@" | tr -s '[:space:]' ' '
}

missing_packages() { # NAME... -> those that dpkg does not have installed
    for name in "$@"; do
        case "$(dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null)" in
        *installed*) ;;
        *) printf '%s ' "$name" ;;
        esac
    done
}

elsewhere() {
    cat >&2 <<TEXT
setup: install these yourself, then run make again:
  Debian 12, 13    apt-get install $1
  Ubuntu 24.04     the same without chromium, which is a snap there and can't run in the body:
                   install Chrome, Brave or Edge from its maker and name it ([desktop] browser)
  Fedora           dnf install bubblewrap xorg-x11-server-Xvfb xkbcomp xkeyboard-config openbox
                   chromium util-linux dejavu-sans-fonts liberation-fonts
                   google-noto-sans-cjk-fonts google-noto-color-emoji-fonts
                   python3 python3-devel gcc kernel-headers make
setup: docs/how-to/other-systems.md says more
TEXT
    exit 1
}

install_packages() { # NAME...
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || {
            printf 'setup: missing system packages, and neither root nor sudo is at hand: %s\n' "$*" >&2
            elsewhere "$*"
        }
        as_root=sudo
    fi
    say "installing the missing system packages: $*"
    # A third party's list that fails to load need not matter; the install below decides.
    $as_root apt-get update || say "apt-get update had errors; trying to install all the same"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@" || die "apt-get could not install: $*"
}

ensure_packages() { # FILE...
    wanted=$(listed "$@")
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
        for program in bwrap Xvfb xkbcomp openbox gcc; do
            command -v "$program" >/dev/null 2>&1 || {
                say "$program is missing, and this system has no apt-get to install it with" >&2
                elsewhere "$wanted"
            }
        done
        return
    fi
    if grep -qs '^ID=ubuntu$' /etc/os-release; then
        wanted=$(printf '%s' "$wanted" | tr ' ' '\n' | grep -vx chromium | tr '\n' ' ')
    fi
    # shellcheck disable=SC2086  # package names, one word each
    missing=$(missing_packages $wanted)
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install_packages $missing
}

# -- python --------------------------------------------------------------------------------------

usable() { # PYTHON -> whether it is 3.11 or newer and can make an environment with pip in it
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
        if usable "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or newer with venv and ensurepip was found; install one (python3, python3-venv)"
}

fingerprint() { # what pip's work depends on
    { .venv/bin/python -VV && cat pyproject.toml scripts/setup.sh && pwd; } | sha256sum
}

ensure_venv() {
    stamp=.venv/setup.stamp
    if .venv/bin/python -c '' 2>/dev/null && [ "$(cat $stamp 2>/dev/null)" = "$(fingerprint)" ]; then
        return
    fi
    quiet=--quiet # what pip has to tell is long, and news only the first time
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        quiet=
        python=$(find_python)
        say "making .venv with $("$python" --version) ($python)"
        "$python" -m venv --clear .venv
    fi
    say "installing the project and its tools into .venv"
    # --group came with pip 25.1; Debian 12 has 23
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
    # shellcheck disable=SC2086  # nothing, or one option
    .venv/bin/python -m pip install $quiet --disable-pip-version-check --editable '.[owner,video]' --group dev
    fingerprint >$stamp
    say "ready"
}

case "${1-}" in
'') ensure_packages scripts/packages.txt ;;
--tests) ensure_packages scripts/packages.txt tests/packages.txt ;;
--soak) ensure_packages scripts/packages.txt tests/packages.txt tests/soak-packages.txt ;;
*) die "unknown argument: $1 (--tests and --soak are known)" ;;
esac
ensure_venv
