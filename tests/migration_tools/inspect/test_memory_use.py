"""Memory stays flat, however many entries a namespace has: measured in a process of its own."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing.conformance.base import committed
from tests.cli.command import ROOT

HEADER = "keys msgpack/2, values msgpack/1"
FEW, MANY = 20_000, 400_000
PROGRAMS = {
    "copy": """
from anchorbolt.migration_tools.copy import copy_namespace
[copied] = copy_namespace(source, SqliteStateProvider(directory + "-copy-" + name[2:]), name).namespaces
print(copied.entries)
""",
    "scan": """
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.migration_tools.entries import scan_entries
from anchorbolt.serialization import MsgpackCodec
with scan_entries(source, name, Codecs(MsgpackCodec(), MsgpackCodec())) as (notes, pages):
    print(sum(len(page) for page in pages))
""",
    "measure": """
from anchorbolt.migration_tools.entries import measured
print(measured(source.open(name))[0])
""",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a small and a large namespace."""
    directory = tmp_path_factory.mktemp("state")
    provider = SqliteStateProvider(str(directory))
    encode = MsgpackCodec().encode
    for entries in (FEW, MANY):
        with closing(provider.open(f"n:{entries}")) as storage:
            slices = (
                [(encode(key), encode("v" * 100)) for key in range(start, start + 10_000)]
                for start in range(0, entries, 10_000)
            )
            committed(storage, *slices, codec=HEADER)
    return directory


def peak_mib(program: str, directory: Path, name: str, entries: int) -> float:
    source = (
        "import resource, sys\ndirectory, name = sys.argv[1:]\n"
        "from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider\n"
        f"source = SqliteStateProvider(directory)\n{program}\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", source, str(directory), name], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found, peak = map(int, ran.stdout.split())
    assert found == entries
    return peak / 1024


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("what", PROGRAMS)
def test_twenty_times_the_entries_need_no_more_memory(what: str, directory: Path) -> None:
    few = peak_mib(PROGRAMS[what], directory, f"n:{FEW}", FEW)
    many = peak_mib(PROGRAMS[what], directory, f"n:{MANY}", MANY)
    # The large one has 40 MiB more data; SQLite's two caches of 16 MiB fill up meanwhile.
    assert many < few + 38, f"{few:.0f} and {many:.0f} MiB"
