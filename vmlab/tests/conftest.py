# SPDX-License-Identifier: GPL-2.0-only
"""An ordinary user with the real sudo, whoever runs the tests."""

import os
import shutil
import subprocess

import pytest

from vmlab import asroot

NOBODY = 65534
#: As root: sudo with leave for nobody alone, in a mount namespace, so that nothing of this machine changes. What is then nobody reads what root can.
AS_NOBODY = """
mount --bind "$0" /etc/sudoers || exit
exec setpriv --reuid {0} --regid {0} --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search -- "$@"
"""


@pytest.fixture
def folder(tmp_path):
    """A directory in which an ordinary user may write."""
    place = tmp_path / "place"
    place.mkdir()
    if asroot.is_root():
        os.chown(place, NOBODY, NOBODY)
        for above in (tmp_path, *list(tmp_path.parents)[:2]):
            above.chmod(above.stat().st_mode | 0o011)
    return place


@pytest.fixture
def ordinary(tmp_path):
    """Words before a command that run it as an ordinary user who has sudo without a password."""
    if not shutil.which("sudo"):
        pytest.skip("there is no sudo")
    words = []
    if asroot.is_root():
        rules = tmp_path / "sudoers"
        rules.write_text(f"root ALL=(ALL) ALL\n#{NOBODY} ALL=(ALL) NOPASSWD: ALL\n")
        rules.chmod(0o440)
        words = ["unshare", "--mount", "sh", "-c", AS_NOBODY.format(NOBODY), str(rules)]
    if subprocess.run([*words, "sudo", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("sudo wants a password here, or a sandbox lets root mount nothing")
    return words
