#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# install.sh - installs the kasuri command for you alone, into ~/.local (or $PREFIX), without root: the tarball of this machine's
# architecture from a release, if its SHA-256 is the one that the release lists.
#
#     curl -fsSL URL/install.sh | sh
#
# KASURI_URL names another place that has the release's files. To remove it again: `sh install.sh --remove`.
set -eu

# A release writes its own address here.
url=${KASURI_URL:-@url@}
prefix=${PREFIX:-${HOME:?}/.local}
files=share/kasuri/installed-files

fail() {
    echo "install.sh: error: $*" >&2
    exit 1
}

# URL FILE
fetch() {
    if command -v curl >/dev/null; then
        curl -fsSL --retry 2 -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1"
    else
        fail "neither curl nor wget is installed"
    fi || fail "cannot fetch $1"
}

# Removes what an earlier run installed, by its list.
remove() {
    [ -f "$prefix/$files" ] || return 0
    while IFS= read -r file; do
        rm -f "$prefix/$file"
    done <"$prefix/$files"
    rm -f "$prefix/$files"
}

install() {
    case $(uname -s) in Linux) ;; *) fail "Kasuri records on Linux alone, this is $(uname -s)" ;; esac
    command -v sha256sum >/dev/null || fail "sha256sum is not installed"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    fetch "$url/SHA256SUMS" "$scratch/sums"
    name=$(sed -n "s/^[0-9a-f]\{64\} [ *]\(kasuri-[0-9A-Za-z.-]*-$(uname -m)-linux\.tar\.gz\)$/\1/p" "$scratch/sums")
    [ -n "$name" ] || fail "this release has no tarball for $(uname -m): $url"
    [ "$(echo "$name" | wc -l)" = 1 ] || fail "$url/SHA256SUMS lists several tarballs for $(uname -m)"
    fetch "$url/$name" "$scratch/$name"
    (cd "$scratch" && grep -F " $name" sums | tr '*' ' ' | sha256sum -c - >/dev/null 2>&1) ||
        fail "the SHA-256 of $name is not the one in SHA256SUMS: nothing was installed"
    mkdir "$scratch/tree"
    tar -xzf "$scratch/$name" -C "$scratch/tree" --strip-components=1 --no-same-owner
    "$scratch/tree/bin/kasuri" -V >/dev/null || fail "the command does not run on this machine: nothing was installed"
    remove
    mkdir -p "$prefix/share/kasuri"
    (cd "$scratch/tree" && find . -type f | sed 's|^\./||' | sort) >"$scratch/list"
    # Before the files: what a run that breaks off has installed can be removed.
    cp "$scratch/list" "$prefix/$files"
    cp -R "$scratch/tree/." "$prefix/"
    echo "$("$prefix/bin/kasuri" -V) is installed: $prefix/bin/kasuri"
    case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "It is not in your PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    echo "The libraries of --locks, --openmp and run --ito are in the packages for Debian and Ubuntu alone."
}

case ${1:-} in
'') install ;;
--remove) remove ;;
*) fail "usage: install.sh [--remove]" ;;
esac
