"""Passwords, given in a configuration directly, or by the name of an environment variable or a file."""

import os

from anchorbolt.errors import ConfigError
from anchorbolt.util.secret import Secret as Secret

_LARGEST_PASSWORD_FILE = 65_536


def find_password(
    keys: tuple[str, str, str], password: Secret | None, variable: str | None, file: str | None
) -> Secret | None:
    """Return the password from one of three settings, whose names are `keys`; an empty `password` means no password.

    Raises `ConfigError` if several are set, or if the variable or file cannot be read or is empty.
    """
    given = [key for key, value in zip(keys, (password, variable, file), strict=True) if value is not None]
    if len(given) > 1:
        raise ConfigError(
            f"{' and '.join(given)} are set: use one of them, best {' or '.join(keys[1:])}.", key=given[1]
        )
    if variable is not None:
        text = os.environ.get(variable)
        if not text:
            state = "not set" if text is None else "empty"
            raise ConfigError(
                f"{keys[1]} names the environment variable {variable}, which is {state}. Set it where Anchorbolt is "
                "started.",
                key=keys[1],
            )
        return Secret(text)
    if file is not None:
        return _in_file(keys[2], file)
    return password if password is not None and password.reveal() else None


def _in_file(key: str, path: str) -> Secret:
    """Return the password in a file, without a trailing line end."""
    problem, text = "is empty", ""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST_PASSWORD_FILE).rstrip("\r\n")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:  # contains the file's bytes: the error below must not have it as its context
        problem = "is not UTF-8 text"
    if not text:
        raise ConfigError(f"{key} names {path}, which {problem}. Put the password into it, on this machine.", key=key)
    return Secret(text)
