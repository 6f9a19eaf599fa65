"""Finds the topology that a job's MODULE:NAME means, by importing the module once.

Must never start anything: what this module returns is submitted by others.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from anchorbolt.errors import AnchorboltError, JobError
from anchorbolt.topology.graph import Topology

_FORM = "Name a job as MODULE:NAME, such as jobs.word_count:topology or jobs/word_count.py:topology"
_CONF = "conf"
_LOOKED_AT = 2000
_DEPTH = 4


@dataclass(frozen=True)
class Job:
    """A job that was loaded: a topology, or a function that builds one.

    Attributes:
        reference: MODULE:NAME as it was given.
        target: What NAME is.
        takes_conf: Whether it is a function with a parameter `conf`.
    """

    reference: str
    target: Topology | Callable[..., object]
    takes_conf: bool

    def topology(self, conf: Mapping[str, Any]) -> Topology:
        """Return the job's topology; a function is called, once per call of this method.

        Args:
            conf: What a function with a parameter `conf` gets.

        Raises:
            AnchorboltError: The function raised it, as `TopologyBuilder` does.
            JobError: The function raised something else, whose traceback the message starts with, or returned no
                topology.
        """
        if isinstance(self.target, Topology):
            return self.target
        try:
            built = self.target(conf=conf) if self.takes_conf else self.target()
        except AnchorboltError:
            raise
        except (Exception, SystemExit) as error:
            raise JobError(
                f"{_users_traceback(error)}\n{self.reference} raised {type(error).__name__} while it built the "
                "topology (traceback above). Mend it and start again."
            ) from error
        if not isinstance(built, Topology):
            raise JobError(f"what {self.reference} returned is {_described(built)}. {_advice(built)}")
        return built


def load_job(reference: str) -> Job:
    """Import a job's module, as `python -m` or `python FILE` would, and find NAME in it.

    A dotted module is looked for with the current directory first on the path. A `.py` file's own directory is put
    there; a file of a package is imported as that package's module.

    Raises:
        JobError: The module, the file or the name does not exist, the import failed, or the name is neither a topology
            nor a function that may build one.
    """
    where, colon, name = reference.rpartition(":")
    if not colon or not where or not name:
        raise JobError(f"{reference!r} is not the name of a job. {_FORM}.")
    module = _import_file(where) if _is_path(where) else _import_dotted(where)
    return _find(module, name, reference)


def _is_path(where: str) -> bool:
    return where.endswith(".py") or os.sep in where


def _import_dotted(module: str) -> ModuleType:
    if not all(part.isidentifier() for part in module.split(".")):
        raise JobError(f"{module!r} is neither a dotted module nor a .py file. {_FORM}.")
    _put_first(Path.cwd())
    return _import(module)


def _import_file(path: str) -> ModuleType:
    file = Path(path).resolve()
    if not file.is_file() or file.suffix != ".py":
        what = "is not a .py file" if file.exists() else "does not exist"
        raise JobError(f"{file} {what}.{_hint(_nearest_file(file))}")
    folder, parts = file.parent, [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    module = ".".join(parts)
    if not parts or not all(part.isidentifier() for part in parts):
        raise JobError(
            f"{file} cannot be imported, because {module or file.name!r} is no module's name, and Spark's workers "
            "import a job by its name. Rename it: letters, digits and underscores."
        )
    _put_first(folder)
    loaded = _import(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve() != file:
        raise JobError(
            f"{file} cannot be imported as {module!r}: that is the name of {origin or 'a built-in module'}, which is "
            "loaded already. Rename the file."
        )
    return loaded


def _put_first(folder: Path) -> None:
    """Let imports look here first; in this process only."""
    entry = str(folder)
    if sys.path[:1] != [entry]:
        sys.path.insert(0, entry)
        importlib.invalidate_caches()


def _import(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except AnchorboltError:
        raise
    except (Exception, SystemExit) as error:
        if _is_missing(error, module):
            raise JobError(
                f"there is no module {module!r}: {error}. Looked in {sys.path[0]} and on Python's path."
                f"{_hint(_nearest_module(module))}"
            ) from None
        raise JobError(
            f"{_users_traceback(error)}\nmodule {module!r} raised {type(error).__name__} while it was imported "
            f"(traceback above).{_import_advice(error)}"
        ) from error


def _is_missing(error: BaseException, module: str) -> bool:
    """Whether the module itself, or a package that it is said to be in, is what could not be found."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return missing is not None and f"{module}.".startswith(f"{missing}.")


def _import_advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f" Install what holds {error.name!r}, or start from the directory that it is in."
    if isinstance(error, SystemExit):
        return ' Put what must run only as a script below: if __name__ == "__main__":'
    return " Mend it and start again."


def _find(module: ModuleType, name: str, reference: str) -> Job:
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            raise JobError(f"module {module.__name__!r} has no {name!r}.{_hint(_candidates(module, name))}")
        target = getattr(target, part)
    if isinstance(target, Topology):
        return Job(reference, target, takes_conf=False)
    if isinstance(target, type) or not callable(target):
        raise JobError(f"{reference} is {_described(target)}. {_advice(target)}")
    return Job(reference, target, takes_conf=_takes_conf(target, reference))


def _takes_conf(function: Callable[..., object], reference: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return False
    takes = [each.name == _CONF and each.kind in _BY_NAME for each in parameters]
    for each, is_conf in zip(parameters, takes, strict=True):
        if not is_conf and each.default is each.empty and each.kind not in _VARIADIC:
            raise JobError(
                f"{reference} cannot be called: it has the parameter {str(each)!r}. A function that builds a topology "
                "has no parameter, or one that is called conf."
            )
    return any(takes)


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _described(value: object) -> str:
    if value is None:
        return "None, not a topology"
    if isinstance(value, type):
        return f"the class {value.__name__}, not a topology"
    return f"of type {type(value).__name__}, not a topology"


def _advice(value: object) -> str:
    if hasattr(value, "create_topology"):
        return "Call its create_topology(name), and use what that returns."
    if value is None:
        return "Let the function return builder.create_topology(name)."
    return "Name a topology, or a function that returns builder.create_topology(name)."


def _candidates(module: ModuleType, name: str) -> str:
    """Say which name of a module is the nearest, or which ones come into question."""
    jobs = [
        key
        for key, value in vars(module).items()
        if isinstance(value, Topology)
        or (inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_"))
    ]
    if not jobs:
        return "It has neither a topology nor a function."
    near = get_close_matches(name, jobs, n=1)
    return f"Did you mean {near[0]}?" if near else f"It has: {', '.join(jobs)}."


def _hint(text: str) -> str:
    return f" {text}" if text else ""


def _nearest_module(module: str) -> str:
    """Say which module below the current directory has the most similar name."""
    root = Path.cwd()
    files: dict[str, Path] = {}
    for file in _python_files(root):
        parts = file.relative_to(root).with_suffix("").parts
        dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        files.setdefault(dotted, file)
    near = get_close_matches(module, files, n=1, cutoff=0.6) or [
        name for name in files if name.rpartition(".")[2] == module.rpartition(".")[2]
    ]
    if not near:
        return "Start from the directory that holds it, or give the path of its .py file."
    return f"Did you mean {near[0]} ({files[near[0]].relative_to(root)})?"


def _nearest_file(file: Path) -> str:
    """Say which file has the most similar name: of the same directory, or else below the current one."""
    for files in (sorted(file.parent.glob("*.py")), list(_python_files(Path.cwd()))):
        near = get_close_matches(file.name, [each.name for each in files], n=1, cutoff=0.6)
        if near:
            return f"Did you mean {next(each for each in files if each.name == near[0])}?"
    return ""


def _python_files(root: Path) -> Iterator[Path]:
    """Yield Python files near the top of a directory, and not too many: it is for a hint only."""
    looked_at = 0
    for folder, folders, names in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(
            name for name in folders if depth < _DEPTH and name.isidentifier() and name != "__pycache__"
        )
        for name in sorted(names):
            looked_at += 1
            if looked_at > _LOOKED_AT:
                return
            if name.endswith(".py"):
                yield Path(folder, name)


def _users_traceback(error: BaseException) -> str:
    """Format a traceback from the user's first line on, without the frames that led there."""
    shown = error.__traceback__
    while shown is not None and _is_machinery(shown):
        shown = shown.tb_next
    return "".join(traceback.format_exception(type(error), error, shown)).rstrip()


def _is_machinery(frame: TracebackType) -> bool:
    name = frame.tb_frame.f_code.co_filename
    return name in _MACHINERY or name.startswith("<frozen importlib")


_MACHINERY = frozenset({__file__, importlib.__file__})
