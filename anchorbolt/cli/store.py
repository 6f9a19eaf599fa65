"""The store that a command works on, found as for a run; and how a command that runs no topology ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from anchorbolt.cli.exit_codes import DONE, LEFT_AT_ONCE, exit_code
from anchorbolt.cli.logs import set_up_logging
from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.config.settings import Settings
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.migration_tools.inspect.decoding import Codecs
from anchorbolt.serialization.serializers import codec_named
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.provider_factory import provider_from


@dataclass(frozen=True)
class Store:
    """A store, and how to read it.

    Attributes:
        provider: Its provider.
        settings: The settings that named it.
        codecs: What they choose for keys and values.
    """

    provider: StateProvider
    settings: Settings
    codecs: Codecs


def open_store(conf_file: Path | None, overrides: Sequence[str]) -> Store:
    """Return the store that a configuration names. Classes of the user's are looked for in the current directory, too.

    Raises:
        ConfigError: The configuration cannot be used, or names the provider `memory`.
    """
    settings = load_conf(file=conf_file, overrides=overrides).settings
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    provider = provider_from(settings, shared_by_processes=False, shared_by_machines=False)
    if not provider.shared_by_processes:
        raise ConfigError(
            f"topology.state.provider is {settings.provider.name}, whose state ends with the process that runs the "
            "topology. Name the provider of a run: --conf FILE, or --set topology.state.provider=redis.",
            key="topology.state.provider",
        )
    codecs = Codecs(
        codec_named(settings.provider.key_serializer, f"{PROVIDER_CONFIG}.keySerializerClass", for_keys=True),
        codec_named(
            settings.provider.value_serializer, f"{PROVIDER_CONFIG}.valueSerializerClass", for_keys=False
        ),
    )
    return Store(provider, settings, codecs)


def ended(command: Callable[[], int], *, as_json: bool) -> typer.Exit:
    """Run a command, show its error as a message on standard error, and return how the process has to end.

    Args:
        command: Returns the exit code.
        as_json: Whether to show the error on standard output, too, as an object `{"error": …}`.
    """
    set_up_logging(verbose=False)
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the lines has read enough
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        code = DONE
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        code = LEFT_AT_ONCE
    except AnchorboltError as error:
        if as_json:
            say(json.dumps({"error": error.message}))
        sys.stdout.flush()
        sys.stderr.write(f"{error.message}\n")
        code = exit_code(error, running=False)
    return typer.Exit(code)


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")
