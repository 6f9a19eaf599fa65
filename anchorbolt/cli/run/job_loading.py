"""Finds the topology of a job's MODULE:NAME by importing the module once. Starts nothing."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from anchorbolt.errors import AnchorboltError, JobError
from anchorbolt.topology.graph import Topology
from anchorbolt.util.messages import did_you_mean
from anchorbolt.util.user_traceback import user_traceback

_FORM = "Name a job as MODULE:NAME, such as jobs.word_count:topology or jobs/word_count.py:topology"
_CONF = "conf"
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Job:
    """A loaded job: a topology, or a function that builds one."""

    reference: str  # MODULE:NAME as the user gave it
    target: Topology | Callable[..., object]
    takes_conf: bool  # whether the target is a function with a parameter `conf`

    def topology(self, conf: Mapping[str, Any]) -> Topology:
        """Return the job's topology. A function is called with `conf`, if it has that parameter.

        Raises:
            AnchorboltError: The function raised it, as `TopologyBuilder` does.
            JobError: The function raised another exception (the message starts with its traceback), or returned no
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
                f"{user_traceback(error)}\n{self.reference} raised {type(error).__name__} while it built the "
                "topology (traceback above). Fix it and start again."
            ) from error
        if not isinstance(built, Topology):
            raise JobError(f"what {self.reference} returned is {_described(built)}. {_advice(built)}")
        return built


def load_job(reference: str) -> Job:
    """Import a job's module, as `python -m` or `python FILE` would, and find NAME in it.

    The first directory on the path is the current one for a dotted module, and the file's own for a `.py` file. A file
    of a package is imported as a module of that package. Raises `JobError`.
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
        near = did_you_mean(file.name, [each.name for each in file.parent.glob("*.py")])
        raise JobError(f"{file} {what}.{near or ' Name the .py file of the job.'}")
    folder, parts = file.parent, [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    module = ".".join(parts)
    if not parts or not all(part.isidentifier() for part in parts):
        raise JobError(
            f"{file} cannot be imported, because {module or file.name!r} is not a valid module name, and Spark's "
            "workers import a job by its name. Rename it: use letters, digits and underscores."
        )
    _put_first(folder)
    loaded = _import(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve() != file:
        raise JobError(
            f"{file} cannot be imported as {module!r}, because {origin or 'a built-in module'} is already loaded under "
            "this name. Rename the file."
        )
    return loaded


def _put_first(folder: Path) -> None:
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
                f"there is no module {module!r}: {error}. Python searched {sys.path[0]} and its path. Start from the "
                "directory that contains the module, or give the path of its .py file."
            ) from None
        raise JobError(
            f"{user_traceback(error)}\nmodule {module!r} raised {type(error).__name__} while it was imported "
            f"(traceback above).{_import_advice(error)}"
        ) from error


def _is_missing(error: BaseException, module: str) -> bool:
    """Whether the missing module is the job's module or one of its packages, and not an import of the job."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return missing is not None and f"{module}.".startswith(f"{missing}.")


def _import_advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f" Install the package that contains {error.name!r}, or start from the module's directory."
    if isinstance(error, SystemExit):
        return ' Put code that must run only as a script below: if __name__ == "__main__":'
    return " Fix it and start again."


def _find(module: ModuleType, name: str, reference: str) -> Job:
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            raise JobError(f"module {module.__name__!r} has no {name!r}.{_candidates(module, name)}")
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
                "has no parameter, or one with the name conf."
            )
    return any(takes)


def _described(value: object) -> str:
    if value is None:
        return "None, not a topology"
    if isinstance(value, type):
        return f"the class {value.__name__}, not a topology"
    return f"of type {type(value).__name__}, not a topology"


def _advice(value: object) -> str:
    if hasattr(value, "create_topology"):
        return "Call its create_topology(name), and use the topology that it returns."
    if value is None:
        return "Let the function return builder.create_topology(name)."
    return "Name a topology, or a function that returns builder.create_topology(name)."


def _candidates(module: ModuleType, name: str) -> str:
    jobs = [
        key
        for key, value in vars(module).items()
        if isinstance(value, Topology)
        or (inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_"))
    ]
    if not jobs:
        return " It has neither a topology nor a function."
    return did_you_mean(name, jobs) or f" It has: {', '.join(jobs)}."
