from pathlib import Path

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.state_backends.sqlite import provider as sqlite_provider
from anchorbolt.state_backends.sqlite.provider import mounted_type

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
tmpfs /run tmpfs rw 0 0
server:/export /mnt/shared nfs4 rw,vers=4.2 0 0
/dev/vdb /mnt/shared/local xfs rw 0 0
//server/share /mnt/with\\040space cifs rw 0 0
/dev/vdc /srv ext4 rw 0 0
user@host: /srv fuse.sshfs rw 0 0
a line of another form
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "ext4"),
        ("/home/me/state", "ext4"),
        ("/running", "ext4"),
        ("/run/state", "tmpfs"),
        ("/mnt/shared", "nfs4"),
        ("/mnt/shared/state/deep", "nfs4"),
        ("/mnt/shared-not", "ext4"),
        ("/mnt/shared/local/state", "xfs"),
        ("/mnt/with space/state", "cifs"),
        ("/srv/state", "fuse.sshfs"),
    ],
)
def test_a_path_is_on_the_innermost_and_latest_mount(path: str, expected: str) -> None:
    assert mounted_type(path, MOUNTS) == expected


def test_a_state_directory_on_a_network_file_system_is_refused_also_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"{MOUNTS}server:/x {tmp_path}/remote nfs rw 0 0\n")
    monkeypatch.setattr(sqlite_provider, "_MOUNTS", mounts)
    (tmp_path / "remote").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "remote")
    for directory, kind in (("/mnt/shared/state", "nfs4"), (f"{tmp_path}/link/state", "nfs")):
        with pytest.raises(ConfigError, match=rf"{directory}.*{kind}"):
            SqliteStateProvider(directory).open("a:b-0")
    SqliteStateProvider("/mnt/shared/local/state").open("a:b-0").close()


def test_where_the_system_does_not_say_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_provider, "_MOUNTS", tmp_path / "absent")
    SqliteStateProvider(str(tmp_path)).open("a:b-0").close()
