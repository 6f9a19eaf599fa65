"""Sends Anchorbolt, its pure Python dependencies and the job's own code to Spark's executors, as one zip file."""

import atexit
import functools
import hashlib
import importlib.util
import shutil
import site
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from pyspark import SparkContext

import anchorbolt
from anchorbolt.engine.spark.remote import DEPENDENCIES, DEPENDENCIES_FOLDER, HDFS_DEPENDENCIES

_SKIPPED_FOLDERS = {"__pycache__", ".git", ".venv", "node_modules"}
_SKIPPED_SUFFIXES = {".pyc", ".pyo", ".so", ".pyd"}
_LARGEST_FILE = 16 << 20
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def ship(context: SparkContext, *, for_hdfs: bool = False) -> None:
    """Make Anchorbolt and all local modules that are already imported importable on every executor.

    With `for_hdfs`, adds the packages that tasks need to write to HDFS, if this machine has them.

    The zip file's name contains a digest of its content, so that the same content is added once.
    """
    files = dict(_archive_files((*DEPENDENCIES, *HDFS_DEPENDENCIES) if for_hdfs else DEPENDENCIES))
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + hashlib.sha256(files[name].read_bytes()).digest())
    name = f"anchorbolt-{digest.hexdigest()[:16]}.zip"
    if any(added.rpartition("/")[2] == name for added in context.listFiles):
        return
    # Executors fetch the file when they get their first task, so it must exist as long as the application.
    path = _folder_of_archives() / name
    if not path.exists():  # of an earlier application of this process
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member in sorted(files):
                archive.writestr(zipfile.ZipInfo(member, _FIXED_TIME), files[member].read_bytes())
    context.addPyFile(str(path))
    # Spark also puts the archive on this process's path, before what is installed. The driver has these modules, and
    # a process that it spawns takes over its path: read from an archive, Anchorbolt has no files to ship.
    sys.path[:] = [entry for entry in sys.path if Path(entry).name != name]


@functools.cache
def _folder_of_archives() -> Path:
    folder = tempfile.mkdtemp(prefix="anchorbolt-ship-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def local_modules() -> Iterator[ModuleType]:
    """Yield the job's own imported top-level modules: neither installed nor in the standard library."""
    for name, module in sorted(sys.modules.items()):
        if "." in name or name in ("__main__", "anchorbolt") or module is None:
            continue
        paths = [getattr(module, "__file__", None) or "", *map(str, getattr(module, "__path__", []))]
        paths = list(filter(None, paths))
        if paths and not any(_is_installed(Path(path)) for path in paths):
            yield module


def _archive_files(dependencies: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    yield from _module_files(anchorbolt)
    for name in dependencies:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield from _folder(Path(spec.origin).parent, f"{DEPENDENCIES_FOLDER}/{name}")
    for module in local_modules():
        yield from _module_files(module)


def _module_files(module: ModuleType) -> Iterator[tuple[str, Path]]:
    for folder in getattr(module, "__path__", []):
        yield from _folder(Path(folder), module.__name__)
    if not hasattr(module, "__path__") and (module.__file__ or "").endswith(".py"):
        yield f"{module.__name__}.py", Path(str(module.__file__))


def _folder(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if (
            path.is_file()
            and not _SKIPPED_FOLDERS.intersection(relative.parts)
            and path.suffix not in _SKIPPED_SUFFIXES
            and path.stat().st_size <= _LARGEST_FILE
        ):
            yield f"{prefix}/{relative.as_posix()}", path


def _is_installed(path: Path) -> bool:
    resolved = path.resolve()
    return any(root in resolved.parents for root in _installed_roots())


def _installed_roots() -> set[Path]:
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots.update(site.getsitepackages())
    roots.add(site.getusersitepackages())
    spark = importlib.util.find_spec("pyspark")
    if spark is not None and spark.origin is not None:  # spark-submit uses PySpark of $SPARK_HOME/python
        roots.add(str(Path(spark.origin).parent.parent))
    return {Path(root).resolve() for root in roots if root}
