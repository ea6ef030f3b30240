"""Files that code opens, and the file systems they lie on."""

import os
from pathlib import Path

import pytest

from advisor.profiles.hooks.loading.opened_files import network_filesystem, opened_files

MOUNTS = """\
overlay / overlay rw 0 0
server:/export /data nfs4 rw 0 0
/dev/sda1 /data/local ext4 rw 0 0
//nas/share /mnt/two\\040words cifs rw 0 0
sshfs /home/me/remote fuse.sshfs rw 0 0
fuse /var/lib/x fuse.fuse-overlayfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/a.png", "nfs4"), ("/data/local/a.png", None), ("/database/a.png", None),
        ("/mnt/two words/a.png", "cifs"), ("/home/me/remote/a.png", "fuse.sshfs"), ("/var/lib/x/a", None),
    ],
)  # fmt: skip
def test_the_innermost_mount_says_where_a_file_lies(path: str, kind: str | None) -> None:
    assert network_filesystem([path], MOUNTS) == kind


def test_most_files_decide() -> None:
    assert network_filesystem(["/data/a", "/data/b", "/etc/c"], MOUNTS) == "nfs4"
    assert network_filesystem(["/data/a", "/etc/b", "/etc/c"], MOUNTS) is None
    assert network_filesystem([], MOUNTS) is None


def test_data_is_told_from_code_and_devices(tmp_path: Path) -> None:
    data, code = tmp_path / "a.bin", tmp_path / "b.py"
    data.write_bytes(b"1")
    code.write_text("1")
    with opened_files() as files:
        data.read_bytes()
        code.read_text()
        Path("/proc/self/stat").read_text()
        os.close(os.open(os.devnull, os.O_RDONLY))
    data.read_bytes()
    assert files == [os.path.realpath(data)]


def test_nothing_is_heard_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), opened_files() as files:
        raise ZeroDivisionError
    (tmp_path / "a").write_text("1")
    assert files == []
