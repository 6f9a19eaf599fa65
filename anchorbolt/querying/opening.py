"""Opens the state of a topology by its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import PROVIDER
from anchorbolt.errors import ConfigError
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.querying.reader import StateReader
from anchorbolt.state_backends.provider_factory import codecs_from, provider_from


def open_state(topology: str, conf: str | PathLike[str] | Mapping[str, Any] | None = None) -> StateReader:
    """Open the state of a topology for reading, while it runs or when it is stopped.

    Reading raises no fence and writes nothing, and no wave waits for it.

    Args:
        topology: Name of the topology.
        conf: The configuration of its runs: the path of a YAML or JSON file, or a mapping; None for the defaults.

    Returns:
        A reader. Close it, or use it in a `with` statement.

    Raises:
        ConfigError: The configuration is wrong, or names the provider `memory`.
        StateError: The store has no state of the topology, or cannot be read.
    """
    given, file = (conf, None) if isinstance(conf, Mapping) else (None, conf)
    settings = load_conf(given, file=file).settings
    provider = provider_from(settings, shared_by_processes=False, shared_by_machines=False)
    if not provider.shared_by_processes:
        raise ConfigError(
            f"{PROVIDER} is {settings.provider.name}, whose state ends with the process that runs the topology. Give "
            f"open_state({topology!r}, conf) the configuration of the runs.",
            key=PROVIDER,
        )
    codecs = Codecs(*codecs_from(settings.provider))
    return StateReader(provider, topology, settings.namespace_prefix_of(topology), codecs)
