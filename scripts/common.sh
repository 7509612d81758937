# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
# What ./test, ./demo and the scripts share: words for the person who waits, and failures that name the thing, the reason and the fix.
# Sourced by bash; `top` is the repository, `program` the name in front of messages.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=${program:-$(basename "$0")}
# shellcheck disable=SC2034  # used by those who source this
cache=${LIMELIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/limelight}

say() {
	printf '%s: %s\n' "$program" "$*" >&2
}

# fail WHAT REASON FIX
fail() {
	printf '%s: %s\n  reason: %s\n  fix: %s\n' "$program" "$1" "$2" "$3" >&2
	exit "${fail_status:-1}"
}

# Runs a command as root, with sudo where this is not root.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		fail "cannot run as root: $*" "this is not root, and there is no sudo" "run $program as root"
	fi
}

# The cargo of rustup is not on the PATH of a shell that has never read its profile.
find_cargo() {
	local home=${CARGO_HOME:-$HOME/.cargo}
	command -v cargo >/dev/null || [ ! -x "$home/bin/cargo" ] || PATH=$home/bin:$PATH
	command -v cargo >/dev/null ||
		fail "there is no Rust" "cargo is neither on the PATH nor in $home/bin" \
			"install Rust $(rust_floor) or later with rustup (Debian 13: apt-get install rustup && rustup default stable), and run the same command again"
	local have
	have=$(rustc --version | cut -d ' ' -f 2)
	[ "$(printf '%s\n' "$(rust_floor)" "$have" | sort -V | head -n 1)" = "$(rust_floor)" ] ||
		fail "Rust $have is too old" "Cargo.toml asks for $(rust_floor)" "rustup update stable"
}

rust_floor() {
	sed -n 's/^rust-version = "\(.*\)"/\1/p' "$top/Cargo.toml"
}

# The BPF program is compiled by clang 19 (.cargo/config.toml), or where a distribution has none, by its newest.
find_clang() {
	[ -z "${BPF_CLANG:-}" ] || return 0
	command -v clang-19 >/dev/null && return
	BPF_CLANG=$(compgen -c clang- | grep -xE 'clang-[0-9]+' | sort -t - -k 2 -n | tail -n 1)
	[ -n "$BPF_CLANG" ] || fail "there is no clang" "the BPF program is compiled by it" "scripts/setup"
	export BPF_CLANG
}

# Seconds as a person says them.
duration() {
	if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}
