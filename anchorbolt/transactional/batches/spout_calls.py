"""Calls the user's methods of a transactional topology's spout, its coordinator and its emitters."""

from collections.abc import Callable
from typing import Any, TypeVar

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.errors import AnchorboltError, SpoutError, UnsupportedValue
from anchorbolt.util.messages import user_traceback

T = TypeVar("T")


def called(task: TaskKey, hook: str, call: Callable[..., T], *arguments: Any) -> T:
    """Call a hook, and return its result. Wraps its exceptions in `SpoutError`, except Anchorbolt's own."""
    try:
        return call(*arguments)
    except (Exception, SystemExit) as error:
        raise spout_error(task, hook, error) from None


def made(task: TaskKey, hook: str, kind: type, call: Callable[..., object], *arguments: Any) -> Any:
    """Call the method that makes a coordinator or an emitter. Raises `SpoutError` if it returns any other object."""
    result = called(task, hook, call, *arguments)
    if not isinstance(result, kind):
        raise SpoutError(
            f"spout {task[0]!r}: {hook}(conf, context) returned a {type(result).__name__}. Return an instance of "
            f"{kind.__name__}.",
            component=task[0],
            task_index=task[1],
            user_traceback="",
        )
    return result


def spout_error(task: TaskKey, hook: str, error: BaseException) -> AnchorboltError:
    """Return the error for an exception of a spout's hook.

    An `AnchorboltError` is returned unchanged, except for a value that was refused at once when the hook emitted it.
    """
    if isinstance(error, AnchorboltError) and (error.found_late or not isinstance(error, UnsupportedValue)):
        return error
    text = user_traceback(error)
    return SpoutError(
        f"{text}\n\nraised by spout {task[0]!r}, task {task[1]}, in {hook}. Fix the spout, or catch the exception in "
        "it.",
        component=task[0],
        task_index=task[1],
        user_traceback=text,
    )
