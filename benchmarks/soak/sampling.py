"""What a run holds at one moment: memory, open files and threads of its processes, files, Redis, and its last waves."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import numpy as np
import redis

from anchorbolt.observe.history.segments import FOLDER as HISTORY
from benchmarks.soak.job import Job
from tests.support.process_memory import memory_mb

Sample: TypeAlias = dict[str, float]
"""By the name of a quantity. A quantity may be missing: nobody has seen it yet."""

_OUTBOX = "checkpoint/anchorbolt/outbox"
_AFTER_COLLECTION = re.compile(r"\d+M->(\d+)M\(\d+M\)")


class Sampler:
    """Takes the samples of one run."""

    def __init__(self, job: Job, driver: int, store: redis.Redis) -> None:
        """`driver` is the process of the driver, which leads a session of its own."""
        self._job, self._driver, self._store = job, driver, store
        self._started = self._last = time.monotonic()
        self._waves, self._batches, self._heap = (_Tail(job.path(n)) for n in ("waves.csv", "batches.csv", "gc.log"))
        self._counted = 0

    def sample(self) -> Sample:
        now = time.monotonic()
        taken = {
            "minutes": (now - self._started) / 60,
            **self._progress(now - self._last),
            **self._processes(),
            **self._java_heap(),
            **self._files(),
            **self._redis(),
        }
        self._last = now
        return taken

    def _progress(self, seconds: float) -> Sample:
        waves = [line.split(",") for line in self._waves.lines()]
        batches = [line.split(",") for line in self._batches.lines()]
        self._counted += len(waves)
        return {
            "waves": self._counted,
            "waves/s": len(waves) / seconds if seconds else 0,
            **_percentiles("wave ms", [float(wave[3]) for wave in waves]),
            **_percentiles("trigger ms", [float(batch[1]) for batch in batches]),
        }

    def _processes(self) -> Sample:
        workers: list[int] = []
        taken: Sample = {}
        for pid, command in _session(self._driver):
            if pid == self._driver:
                taken |= _process("driver", pid)
            elif "pyspark.daemon" in command:
                workers.append(pid)
            elif "org.apache.spark" in command:
                taken |= _process("jvm", pid)
        memory = [memory_mb(pid) for pid in workers]
        return taken | {
            "largest worker MB": max(memory, default=0),
            "all workers MB": sum(memory),
            "workers": len(workers),
            "workers open files": sum(map(_open_files, workers)),
            "workers threads": sum(map(_threads, workers)),
        }

    def _java_heap(self) -> Sample:
        """Return the smallest heap that a collection of garbage has left since the last sample."""
        found = [_AFTER_COLLECTION.search(line) for line in self._heap.lines()]
        return {"jvm heap MB": min(int(each[1]) for each in found if each)} if any(found) else {}

    def _files(self) -> Sample:
        checkpoint = self._job.path("checkpoint")
        places = {name: self._job.path(name) for name in ("spark-local", "tmp", "sink", _OUTBOX)}
        with suppress(OSError):
            places |= {f"checkpoint/{each.name}": each for each in checkpoint.iterdir() if each.is_dir()}
        history, history_size = _files_of(checkpoint / HISTORY)
        taken = {"checkpoint files": _files_of(checkpoint)[0] - history, "history files": history}
        for name, place in sorted(places.items()):
            files, size = _files_of(place)
            if name == "checkpoint/anchorbolt":
                files, size = files - history, size - history_size
            taken |= {f"{name} files": files, f"{name} MB": size / 1e6}
        return taken

    def _redis(self) -> Sample:
        with suppress(redis.RedisError):
            return {"redis MB": self._store.info("memory")["used_memory"] / 1e6, "redis keys": self._store.dbsize()}
        return {}


class _Tail:
    """The complete lines that were added to a file since the last call."""

    def __init__(self, file: Path) -> None:
        self._file, self._read = file, 0

    def lines(self) -> list[str]:
        if not self._file.exists():
            return []
        with self._file.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole + end)
        return whole.decode(errors="replace").splitlines()


def _percentiles(name: str, values: list[float]) -> Sample:
    if not values:
        return {}
    return {f"{name} p50": float(np.percentile(values, 50)), f"{name} p95": float(np.percentile(values, 95))}


def _session(leader: int) -> Iterator[tuple[int, str]]:
    """Yield the processes of a session with their command lines. A worker may outlive the one that started it."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == leader:
                    yield int(folder.name), (folder / "cmdline").read_text()


def _process(name: str, pid: int) -> Sample:
    with suppress(OSError):
        figures = {"MB": memory_mb(pid), "open files": _open_files(pid), "threads": _threads(pid)}
        return {f"{name} {figure}": value for figure, value in figures.items()}
    return {}


def _open_files(pid: int) -> int:
    return _entries(f"/proc/{pid}/fd")


def _threads(pid: int) -> int:
    return _entries(f"/proc/{pid}/task")


def _entries(folder: str) -> int:
    with suppress(OSError):
        return len(os.listdir(folder))
    return 0


def _files_of(place: Path) -> tuple[int, int]:
    """Return how many files are below a directory, directories included, and their bytes."""
    files = size = 0
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            files += 1
            if entry.is_dir(follow_symlinks=False):
                more, bytes_more = _files_of(Path(entry.path))
                files, size = files + more, size + bytes_more
            else:
                with suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_size
    return files, size
