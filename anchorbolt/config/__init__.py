"""A run's configuration: its keys, the sources of the values, the checks, and the resulting typed settings.

`load_conf` is imported on first use: executors import `settings` and `secret`, and must not load PyYAML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.util.imports import lazy_names

if TYPE_CHECKING:
    from anchorbolt.config.loading import Configuration, load_conf
    from anchorbolt.config.secret import Secret

__all__ = ["Configuration", "Secret", "load_conf"]

__getattr__ = lazy_names(
    __name__,
    {
        "Configuration": "anchorbolt.config.loading",
        "Secret": "anchorbolt.config.secret",
        "load_conf": "anchorbolt.config.loading",
    },
)
