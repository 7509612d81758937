# SPDX-License-Identifier: GPL-2.0-only
"""Debian's packages: which mirror, which versions a suite has now, and fetching them, signatures checked.

Everything goes through an apt of our own (its lists and downloads are in the cache), because the machine's apt must not
learn suites it was not set up for. The mirror is the one the machine's apt uses. The suites are checked against the machine's own
`debian-archive-keyring`: Debian 12's, since its point release of 2024, holds the keys of 13, which sign `forky` and `sid` too. An older
one is reported with the upgrade that fixes it; no key is ever fetched from the network.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

from vmlab import cache, host
from vmlab.errors import LabError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = ("trixie", "trixie-backports", "forky", "sid")
FRESH_S = 3600
"""Package lists younger than this are not fetched again."""
UPDATING = threading.Lock()
ROOT_SUITE = "trixie"


def mirror() -> str:
    """The Debian mirror of this machine's apt."""
    lines = host.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN) $(LABEL)", "Created-By: Packages"], "ask apt for its mirror"
    ).splitlines()
    for line in lines:
        site, _, rest = line.partition(" ")
        if rest == "Debian Debian":
            return site
    fix = "add Debian's main archive to its apt sources and run apt-get update"
    raise LabError("no Debian mirror to take packages from", "this machine's apt lists none", fix)


def options() -> list[str]:
    """Options that make apt use our own lists."""
    tree = cache.root() / "lab" / "apt"
    for part in ("state/lists/partial", "cache/archives/partial", "etc/sources.list.d", "etc/preferences.d", "etc/trusted.gpg.d"):
        (tree / part).mkdir(parents=True, exist_ok=True)
    (tree / "status").touch()
    (tree / "etc" / "debian.sources").write_text(
        f"Types: deb\nURIs: {mirror()}\nSuites: {' '.join(SUITES)}\nComponents: main\nArchitectures: amd64\nSigned-By: {KEYRING}\n"
    )
    settings = {
        "Dir::State": tree / "state",
        "Dir::State::status": tree / "status",
        "Dir::Cache": tree / "cache",
        "Dir::Etc::SourceList": tree / "etc" / "debian.sources",
        "Dir::Etc::SourceParts": tree / "etc" / "sources.list.d",
        "Dir::Etc::PreferencesParts": tree / "etc" / "preferences.d",
        "Dir::Etc::TrustedParts": tree / "etc" / "trusted.gpg.d",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",
        "APT::Update::Post-Invoke-Success": "",
        "APT::Update::Post-Invoke": "",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Retries": "3",
        "APT::Update::Error-Mode": "any",
    }
    return [f"-o{name}={value}" for name, value in settings.items()]


def update() -> None:
    """Fetches the package lists of the suites, unless that has just been done."""
    if not KEYRING.exists():
        raise LabError("cannot check Debian's signatures", f"there is no {KEYRING}", "apt-get install debian-archive-keyring")
    stamp = cache.root() / "lab" / "apt" / "updated"
    with UPDATING:
        if stamp.exists() and time.time() - stamp.stat().st_mtime < FRESH_S:
            return
        cache.say("package lists: fetching")
        host.run(["apt-get", *options(), "update"], "fetch the package lists")
        stamp.touch()


def names(prefix: str) -> list[str]:
    """The packages whose name starts so."""
    return host.run(["apt-cache", *options(), "pkgnames", prefix], "list packages").split()


def download(wanted: list[str], directory: Path) -> list[Path]:
    """Fetches packages into a directory; apt checks them against the signed lists."""
    host.run(["apt-get", *options(), "download", *wanted], f"fetch {' '.join(wanted)}", cwd=directory)
    return sorted(directory.glob("*.deb"))


RELEASE = re.compile(r"linux-(?:image|binary)-(?P<release>(?P<version>\d+\.\d+(?:\.\d+)?)\+deb\d+)-amd64$")


def newest_kernel(available: list[str], series: str, broken: frozenset[str]) -> str:
    """The newest release of a kernel series among package names, such as `6.18.15+deb13`."""
    found = {}
    for name in available:
        match = RELEASE.match(name)
        if match and match["release"] not in broken and match["version"].split(".")[:2] == series.split("."):
            found[tuple(int(part) for part in match["version"].split(".")), match["release"]] = match["release"]
    if not found:
        raise LabError(
            f"no kernel {series} to be had",
            f"the suites {', '.join(SUITES)} hold no usable package of that series",
            "choose another series (./lab exec --kernel), or look where it went and change vmlab/kernels.py",
        )
    return found[max(found)]


def kernel_packages(available: list[str], release: str) -> list[str]:
    """The packages that make up one kernel: one (image and modules) or three, by the time it was packaged."""
    split = [f"linux-{part}-{release}-amd64" for part in ("binary", "modules", "base")]
    if split[0] in available and split[1] in available:
        return [name for name in split if name in available]
    return [f"linux-image-{release}-amd64"]
