"""Finds the topology of a job's MODULE:NAME by importing the module once. Starts nothing."""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from types import ModuleType
from typing import Any

from anchorbolt.errors import AnchorboltError, JobError
from anchorbolt.topology.graph import Topology
from anchorbolt.util.messages import did_you_mean, user_traceback

_FORM = "Name a job as MODULE:NAME, such as jobs.word_count:topology or jobs/word_count.py:topology"
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def load_topology(reference: str, conf: Mapping[str, Any]) -> Topology:
    """Import a job's module, like `python -m` or `python FILE`, and return the topology that NAME is or builds.

    The first directory on the path is the current directory for a dotted module, and the file's directory for a `.py`
    file. A file of a package is imported as a module of that package. A function is called with `conf` if it has this
    parameter.

    Raises:
        AnchorboltError: The function raised it, as `TopologyBuilder` does.
        JobError: There is no topology, or the module or the function raised another exception: then the message starts
            with its traceback.
    """
    where, _, name = reference.rpartition(":")
    if not where or not name:
        raise JobError(f"{reference!r} is not the name of a job. {_FORM}.")
    if where.endswith(".py") or os.sep in where:
        module = _import_file(where)
    elif all(part.isidentifier() for part in where.split(".")):
        module = _import(where, Path.cwd())
    else:
        raise JobError(f"{where!r} is neither a dotted module nor a .py file. {_FORM}.")
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            raise JobError(f"module {module.__name__!r} has no {name!r}.{_candidates(module, name)}")
        target = getattr(target, part)
    if isinstance(target, Topology):
        return target
    if isinstance(target, type) or not callable(target):
        raise JobError(f"{reference} is {_no_topology(target)}")
    given = {"conf": conf} if _takes_conf(target, reference) else {}
    try:
        built = target(**given)
    except AnchorboltError:
        raise
    except (Exception, SystemExit) as error:
        raise JobError(
            f"{user_traceback(error)}\n{reference} raised {type(error).__name__} while it built the topology "
            "(traceback above). Fix it and start again."
        ) from error
    if not isinstance(built, Topology):
        raise JobError(f"what {reference} returned is {_no_topology(built)}")
    return built


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
    loaded = _import(module, folder)
    origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve() != file:
        raise JobError(
            f"{file} cannot be imported as {module!r}, because {origin or 'a built-in module'} is already loaded under "
            "this name. Rename the file."
        )
    return loaded


def _import(module: str, folder: Path) -> ModuleType:
    """Import a module, with `folder` as the first directory on the path."""
    _refuse_name_of_another(module.partition(".")[0], folder)
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except AnchorboltError:
        raise
    except (Exception, SystemExit) as error:
        advice = "Fix it and start again."
        if isinstance(error, SystemExit):
            advice = 'Put code that must run only as a script below: if __name__ == "__main__":'
        elif isinstance(error, ModuleNotFoundError):
            if f"{module}.".startswith(f"{error.name}."):  # the job's module or its package, not an import of the job
                raise JobError(
                    f"there is no module {module!r}: {error}. Python searched {folder} and its path. Start from the "
                    "directory that contains the module, or give the path of its .py file."
                ) from None
            advice = f"Install the package that contains {error.name!r}, or start from the module's directory."
        raise JobError(
            f"{user_traceback(error)}\nmodule {module!r} raised {type(error).__name__} while it was imported "
            f"(traceback above). {advice}"
        ) from error


def _refuse_name_of_another(name: str, folder: Path) -> None:
    """Refuse a job in `folder` that has the name of a module required by Anchorbolt, before anything is imported.

    Spark, a driver of a store or the job itself would import the job instead of that module.
    """
    if PathFinder.find_spec(name, [str(folder)]) is None:
        return
    elsewhere = [place for place in sys.path if place and Path(place).resolve() != folder.resolve()]
    is_of_python = name in sys.stdlib_module_names
    if is_of_python or (PathFinder.find_spec(name, elsewhere) is not None and _is_needed(name)):
        whose = "a module of Python" if is_of_python else "an installed module"
        raise JobError(
            f"{name!r} in {folder} cannot be imported: it has the name of {whose}, and Anchorbolt, Spark or the job "
            f"would import it in place of that one. Rename it: my_{name}, for instance."
        )


def _is_needed(module: str) -> bool:
    """Return whether a module belongs to a distribution that Anchorbolt requires, directly or indirectly."""
    owners = {_canonical(each) for each in packages_distributions().get(module, ())}
    waiting, seen = ["anchorbolt"], set[str]()
    while waiting:
        distribution = waiting.pop()
        if distribution not in seen:
            seen.add(distribution)
            with suppress(PackageNotFoundError):
                waiting += [_canonical(each) for each in requires(distribution) or ()]
    return bool(owners & seen)


def _canonical(requirement: str) -> str:
    """Return the name of the distribution at the beginning of a requirement, such as `redis>=5; extra == "x"`."""
    name = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name[0] if name else requirement).lower()


def _takes_conf(function: Callable[..., object], reference: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return False
    others = [each for each in parameters if each.name != "conf" or each.kind not in _BY_NAME]
    for each in others:
        if each.default is each.empty and each.kind not in _VARIADIC:
            raise JobError(
                f"{reference} cannot be called: it has the parameter {str(each)!r}. A function that builds a topology "
                "has no parameter, or one with the name conf."
            )
    return len(others) < len(parameters)


def _no_topology(value: object) -> str:
    """Return the end of a message "NAME is …": the kind of the value, and the next action."""
    if value is None:
        return "None, not a topology. Let the function return builder.create_topology(name)."
    what = f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
    advice = "Name a topology, or a function that returns builder.create_topology(name)."
    if hasattr(value, "create_topology"):
        advice = "Call its create_topology(name), and use the topology that it returns."
    return f"{what}, not a topology. {advice}"


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
