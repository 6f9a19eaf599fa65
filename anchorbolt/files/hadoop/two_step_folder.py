"""A folder on a file system whose rename does not replace a file, such as `abfss:`.

Hadoop deletes the target there and then renames, so a crash in between would leave no file. A file is replaced in steps
instead, each a write of a new name, a rename to a free name, or a removal:

```
write .f.<uuid>.tmp → rename it to .f.new → delete f → rename .f.new to f
```

`.f.new` is always whole. It is what `f` is read from while `f` does not exist.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO

from anchorbolt.files.hadoop.hadoop_errors import hadoop_errors
from anchorbolt.files.hadoop.hadoop_folder import OBJECT_STORES, HadoopFolder
from anchorbolt.files.hadoop.jvm import Hadoop

_ENDING = ".new"
_REPLACES_BY_RENAME = {"hdfs"}


def open_hadoop_folder(hadoop: Hadoop, location: str) -> HadoopFolder:
    """Open a qualified location. Raises `OSError` if Hadoop has no such file system."""
    scheme = location.partition(":")[0]
    kind = HadoopFolder if scheme in OBJECT_STORES | _REPLACES_BY_RENAME else TwoStepFolder
    return kind(hadoop, location)


class TwoStepFolder(HadoopFolder):
    """See `Folder`."""

    def read_end(self, name: str, size: int) -> bytes | None:
        for each in _tried(name):
            data = super().read_end(each, size)
            if data is not None:
                return data
        return None

    def open(self, name: str) -> BinaryIO:
        for each in _tried(name):
            try:
                return super().open(each)
            except FileNotFoundError as error:
                missing = error
        raise missing

    def exists(self, name: str) -> bool:
        return any(super(TwoStepFolder, self).exists(each) for each in _tried(name))

    def remove_tree(self, name: str) -> None:
        if name:
            super().remove_tree(_new(name))
        super().remove_tree(name)

    def names(self, name: str) -> Iterator[str]:
        found = super().names(name)
        yield from sorted({each[1:].removesuffix(_ENDING) if _is_new(each) else each for each in found})

    def _put(self, aside: Any, name: str) -> None:
        target, new = self._at(name), self._at(_new(name))
        with hadoop_errors():
            if self._fs.exists(target):
                self._fs.delete(new, False)
                self._rename(aside, new)
                self._fs.delete(target, False)
                aside = new
            self._rename(aside, target)
            self._fs.delete(new, False)

    def _rename(self, origin: Any, target: Any) -> None:
        if not self._fs.rename(origin, target):
            raise OSError(f"{origin.toString()} cannot be renamed to {target.toString()}")


def _new(name: str) -> str:
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}.{last}{_ENDING}"


def _is_new(name: str) -> bool:
    return name.startswith(".") and name.endswith(_ENDING)


def _tried(name: str) -> tuple[str, ...]:
    """Return where a file may be. The last step may happen between two looks, so the first place comes last, too."""
    return name, _new(name), name
