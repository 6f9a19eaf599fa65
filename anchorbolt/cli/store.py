"""The store of a command, from the same configuration as a run's."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from anchorbolt.config.loading import load_conf
from anchorbolt.config.settings import Settings
from anchorbolt.errors import ConfigError
from anchorbolt.migration_tools.inspect.decoding import Codecs
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.provider_factory import codecs_from, provider_from


def open_store(conf_file: Path | None, overrides: Sequence[str]) -> tuple[StateProvider, Settings, Codecs]:
    """Return the configured store, with its settings and codecs.

    A user's classes may be in the current directory. Raises `ConfigError`, also for the provider `memory`.
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
    return provider, settings, Codecs(*codecs_from(settings.provider))
