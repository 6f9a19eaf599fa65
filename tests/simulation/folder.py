"""The checkpoint location and the sink's directory of a simulation: files in memory, every change a step."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from anchorbolt.files import join

if TYPE_CHECKING:
    from tests.simulation.world import World


class SimulatedFolder:
    """See `anchorbolt.files.Folder`."""

    def __init__(self, world: World, location: str) -> None:
        self._world = world
        self._files = world.files
        self.location = location

    def read(self, name: str) -> bytes | None:
        self._world.step(f"read {self._at(name)}")
        return self._files.get(self._at(name))

    def read_end(self, name: str, size: int) -> bytes | None:
        data = self.read(name)
        return None if data is None else data[-size:]

    def replace(self, name: str, data: bytes) -> None:
        self._world.step(f"replace {self._at(name)}")
        self._files[self._at(name)] = data
        self._world.step(f"replaced {self._at(name)}")

    def create(self, name: str) -> BinaryIO:
        return _File(self._world, self._at(name))

    def create_passing(self, name: str) -> BinaryIO:
        return _PassingFile(self._world, self._at(name))

    def open(self, name: str) -> BinaryIO:
        self._world.step(f"open {self._at(name)}")
        if self._at(name) not in self._files:
            raise FileNotFoundError(self._at(name))
        return io.BytesIO(self._files[self._at(name)])

    def exists(self, name: str) -> bool:
        return self._at(name) in self._files

    def move_in(self, source: str, name: str) -> None:
        self._world.step(f"move {source} to {self._at(name)}")
        if source in self._files:
            self._files[self._at(name)] = self._files.pop(source)
        elif self._at(name) not in self._files:
            raise FileNotFoundError(source)
        self._world.step(f"moved {source}")

    def remove_tree(self, name: str) -> None:
        self._world.step(f"remove {self._at(name)}")
        below = self._at(name)
        for path in [path for path in self._files if path == below or path.startswith(f"{below}/")]:
            del self._files[path]

    def names(self, name: str) -> Iterator[str]:
        below = f"{self._at(name)}/"
        found = {path[len(below) :].partition("/")[0] for path in self._files if path.startswith(below)}
        yield from sorted(found)

    def _at(self, name: str) -> str:
        return join(self.location, name)


class SimulatedLocations:
    """See `anchorbolt.files.Locations`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def qualified(self, location: str) -> str:
        return location

    def open(self, location: str) -> SimulatedFolder:
        return SimulatedFolder(self._world, location)

    def for_workers(self, places: Iterable[str]) -> SimulatedLocations:
        return self


class _File(io.BytesIO):
    """A file that is there, whole, once it is closed by a process that lives."""

    def __init__(self, world: World, path: str) -> None:
        super().__init__()
        self._world = world
        self._path = path

    def __del__(self) -> None:
        """Nothing: what the garbage collector finds, and when, is no step of anybody's."""

    def close(self) -> None:
        if self.closed or self._world.is_unwinding:
            return  # a killed process closes nothing
        self._world.step(f"write {self._path}")
        self._world.files[self._path] = self.getvalue()
        super().close()


class _PassingFile(io.BytesIO):
    """A file that is there, empty, once it is open; who removes it meanwhile removes it for good."""

    def __init__(self, world: World, path: str) -> None:
        super().__init__()
        self._world = world
        self._path = path
        world.files[path] = b""

    def __del__(self) -> None:
        """Nothing, as of the other file."""

    def close(self) -> None:
        if self.closed or self._world.is_unwinding:
            return
        self._world.step(f"write {self._path}")
        if self._path in self._world.files:
            self._world.files[self._path] = self.getvalue()
        super().close()
