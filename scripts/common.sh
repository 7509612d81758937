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

# Whether somebody can be asked for a password: one that nobody types would be waited for for ever.
is_attended() {
	[ -t 0 ] && [ -z "${CI:-}" ]
}

# require_root WHAT: sees to it now that as_root will run, or fails, saying why WHAT cannot be done. vmlab/asroot.py says the same of the laboratory.
require_root() {
	local said
	[ "$(id -u)" -ne 0 ] || return 0
	command -v sudo >/dev/null ||
		fail "cannot $1" "that needs root, this is user $(id -un), and there is no sudo" \
			"run it as root; or as root: apt-get install sudo && adduser $(id -un) sudo, log in again and run the same command again"
	said=$(LC_ALL=C sudo -n true 2>&1) && return
	if is_attended; then
		say "$(id -un) is not root, and to $1 needs it: sudo asks for your password"
		sudo -v && return
		said="its message is above"
	fi
	fail "cannot $1" "that needs root, this is user $(id -un), and sudo refuses: ${said##*$'\n'}" \
		"run it in a terminal, where sudo can ask for the password; or as root; or have root give you sudo (adduser $(id -un) sudo)"
}

# Runs a command as root, with sudo where this is not root: after require_root.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif is_attended; then
		sudo "$@"
	else
		sudo -n "$@"
	fi
}

# Makes the first cargo that is new enough the one that is found. Rustup's directory counts as the last of the PATH: a shell that has never read
# its profile lacks it, and cargo itself would look for cargo-fmt there before it looks beside cargo.
choose_cargo() {
	local bin=${CARGO_HOME:-$HOME/.cargo}/bin paths cargo path
	[[ :$PATH: = *":$bin:"* ]] || PATH=$PATH:$bin
	paths=("$PATH")
	while read -r cargo; do paths+=("${cargo%/*}:$PATH"); done < <(type -ap cargo)
	[ ${#paths[@]} -gt 1 ] || return 1
	for path in "${paths[@]}"; do
		if is_rust_enough "$(rust_version "$path")"; then
			PATH=$path
			return
		fi
	done
	return 1
}

# Fails where there is no cargo, or none that is new enough: it is scripts/setup that installs one.
find_cargo() {
	local have what="there is no Rust" why
	choose_cargo && return
	have=$(rust_version "$PATH")
	if ! command -v cargo >/dev/null; then
		why="cargo is neither on the PATH nor in ${CARGO_HOME:-$HOME/.cargo}/bin"
	elif [ -z "$have" ]; then
		why="there is a cargo, but rustc --version fails"
	else
		what="Rust $have is too old"
		why="Cargo.toml asks for $(rust_floor)"
	fi
	fail "$what" "$why" "scripts/setup (Debian 12 or 13), or rustup default stable && rustup update stable; then run the same command again"
}

# What a rustc of this PATH calls itself; nothing where there is none, or a rustup without a toolchain.
rust_version() {
	env PATH="$1" rustc --version 2>/dev/null | cut -d ' ' -f 2
}

is_rust_enough() {
	[ -n "$1" ] && printf '%s\n' "$(rust_floor)" "$1" | sort -VC
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

# What goes on while something else does, by its number. It ends with this program.
declare -A begun=()

# begin COMMAND...: runs a program, whose number is $! then, while something else goes on.
begin() {
	"$@" </dev/null &
	begun[$!]=yes
	trap 'kill "${!begun[@]}" 2>/dev/null || true' EXIT
}

# await NUMBER: waits for what was begun; returns its status. From then on the number may be another process's, an hour later, and is nobody's to kill.
await() {
	local status=0
	wait "$1" || status=$?
	unset "begun[$1]"
	return $status
}

# begin_lab LOG: fetches and unpacks the parts of the laboratory while something else goes on. What it says is for LOG: whoever needs a part that
# is not there fetches it again, and says why that fails.
begin_lab() {
	begin "$top/lab" setup --fetch >"$1" 2>&1
	lab_fetch=$!
}

# Waits for what begin_lab has begun, if anything.
await_lab() {
	[ -z "${lab_fetch:-}" ] || await "$lab_fetch" || true
	lab_fetch=
}

# Seconds as a person says them.
duration() {
	if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}
