"""The first process of an isolated machine: `machine_init.py LAYOUT COMMAND…`, with LAYOUT in JSON.

It runs as process 1 of a new mount namespace and a new process namespace (`tests.servers.isolated_cluster`). It makes
every directory read-only, puts empty ones in place of those that the driver and other machines write to, and then runs
the command. When this process ends, Linux kills every other process of the machine, and its private directories are
gone. It uses the standard library only, and never changes the machine that the tests run on.
"""

import ctypes
import json
import os
import signal
import struct
import sys
from pathlib import Path

_MS_BIND = 4096
_MOUNT_SETATTR = 442  # the number of the system call on every processor
_AT_FDCWD, _AT_RECURSIVE, _RDONLY = -100, 0x8000, 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    layout, command = json.loads(sys.argv[1]), sys.argv[2:]
    # A directory below a private one is found by its descriptor once the private one covers it.
    kept = {path: os.open(path, os.O_PATH) for path in (*layout["shared"], *layout["read_only"])}
    _set_read_only("/", True)
    for path in layout["private"]:
        _mount("tmpfs", path, kind="tmpfs", data="mode=1777")
    for path, descriptor in kept.items():
        if not any(Path(path).is_relative_to(each) for each in layout["private"]):
            source = path
        else:
            source = f"/proc/self/fd/{descriptor}"
            os.makedirs(path, exist_ok=True)
        _mount(source, path, flags=_MS_BIND)
        _set_read_only(path, path not in layout["shared"])
        os.close(descriptor)
    os.makedirs(layout["home"], exist_ok=True)
    os.chdir(layout["home"])
    sys.exit(_run(command))


def _run(command: list[str]) -> int:
    """Run a command to its end and return its exit code; meanwhile, bury what the machine's other processes leave."""
    child = os.spawnvp(os.P_NOWAIT, command[0], command)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _mount(source: str, target: str, *, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    arguments = (source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags))
    _check(_LIBC.mount(*arguments, data and data.encode()), target)


def _set_read_only(path: str, value: bool) -> None:
    """Make a mount read-only or writable, with all that is mounted below it."""
    change = struct.pack("QQQQ", _RDONLY if value else 0, 0 if value else _RDONLY, 0, 0)
    call = (_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, change, len(change))
    _check(_LIBC.syscall(*call), path)


def _check(result: int, path: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


if __name__ == "__main__":
    main()
