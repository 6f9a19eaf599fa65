"""Spark's own options: below the key `spark` of a configuration, with the names of spark-submit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anchorbolt.config.declaration import Accepted, Checked, setting, text, whole
from anchorbolt.config.masking import ASSIGNED, SECRET_KEY
from anchorbolt.errors import ConfigError

SPARK = "spark"

_MEMORY = text("an amount of memory with its unit, for instance 512m or 4g", r"(?i)[1-9]\d*[kmgt]b?")
_PACKAGE = r"[^\s,:]+:[^\s,:]+:[^\s,:]+"
_PACKAGES = text("Maven coordinates, each group:artifact:version, separated by commas", rf"{_PACKAGE}(,{_PACKAGE})*")
_JARS = text("paths or URIs of .jar files, separated by commas", r"[^,]+(,[^,]+)*")
_SPARK_NAMES = {
    "packages": "spark.jars.packages",
    "jars": "spark.jars",
    "driver-memory": "spark.driver.memory",
    "executor-memory": "spark.executor.memory",
    "num-executors": "spark.executor.instances",
    "executor-cores": "spark.executor.cores",
}
_NOT_OPTIONS = {
    "spark.master": "Give it as --master URL.",
    "spark.app.name": "It is always the topology's name. Remove it.",
    **dict.fromkeys(
        ("spark.remote", "spark.api.mode"),
        "Anchorbolt does not run over Spark Connect. Remove it, and use --master URL.",
    ),
}
# Like Spark's default of spark.redaction.regex, without names of files and switches, but with keys of accounts.
_SECRET = re.compile(
    r"(?i)(?!.*(file|path|enabled|provider|[.]id)$).*"
    r"(secret|password|passphrase|token|authorization|(access|account|private|api)[._-]?key)"
)
_LOGIN = re.compile(r"://[^/@\s:]*:[^/@\s]+@")
_IN_DEFAULTS = "Put it into spark-defaults.conf in the directory that SPARK_CONF_DIR names."
_IN_JAVA_FILE = (  # Spark also starts Java with these options from spark-defaults.conf
    "Put the option into a file that only your user can read, on each machine that needs it, and give @FILE here."
)
_CONF = Accepted(
    lambda value: isinstance(value, Mapping) and all(isinstance(each, (str, int, float)) for each in value.values()),
    "a mapping from names of Spark's settings to strings, numbers, true or false",
)


@dataclass(frozen=True, kw_only=True)
class SparkOptions(Checked):
    """Options of the Spark session that Anchorbolt builds; None leaves Spark's default."""

    packages: str | None = setting(_PACKAGES, None)
    jars: str | None = setting(_JARS, None)
    driver_memory: str | None = setting(_MEMORY, None, key="driver-memory")
    executor_memory: str | None = setting(_MEMORY, None, key="executor-memory")
    num_executors: int | None = setting(whole(1), None, key="num-executors")
    executor_cores: int | None = setting(whole(1), None, key="executor-cores")
    conf: Mapping[str, Any] | None = setting(_CONF, None)  # by Spark's names; the options above override them

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.conf or {}:
            if not isinstance(name, str) or not name.startswith("spark."):
                raise ConfigError(
                    f"{name!r} is not a setting of Spark: their names start with 'spark.'. Correct it, or remove it "
                    f"from {SPARK}.conf.",
                    key=str(name),
                )
            if name in _NOT_OPTIONS:
                raise ConfigError(f"{name} cannot be set here. {_NOT_OPTIONS[name]}", key=name)
        for name, value in self.settings().items():
            of_own = "Env." in name and SECRET_KEY.fullmatch(name)  # the job author's environment variable
            if _SECRET.match(name) or of_own or _LOGIN.search(value) or ASSIGNED.search(value):
                # PySpark passes all settings of a session to Java as arguments.
                raise ConfigError(
                    f"{name} holds a secret, and every user of the machine can read Java's arguments. "
                    f"{_IN_JAVA_FILE if name.endswith('JavaOptions') else _IN_DEFAULTS}",
                    key=name,
                )

    def settings(self) -> dict[str, str]:
        """Return these options as settings of Spark."""
        options = {name: getattr(self, key.replace("-", "_")) for key, name in _SPARK_NAMES.items()}
        chosen = {**(self.conf or {}), **{name: value for name, value in options.items() if value is not None}}
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in chosen.items()}


NO_OPTIONS = SparkOptions()


def merged_spark_options(first: Any, second: Any) -> Any:
    """Merge the options below `spark` of two sources; the second overrides the first, setting by setting."""
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return second
    return {**first, **{key: merged_spark_options(first.get(key), value) for key, value in second.items()}}


def refuse_spark_setting(key: str) -> None:
    """Raise `ConfigError` for a setting of Spark among the keys of a configuration; the error says where it belongs."""
    if not key.startswith(f"{SPARK}."):
        return
    options = [option for option, name in _SPARK_NAMES.items() if name == key]
    where = f"Give it as --spark-conf {key}=…, or under 'spark:', 'conf:' in the configuration file."
    if options:
        where = f"Give it as --{options[0]}, or as {options[0]!r} under 'spark:' in the configuration file."
    raise ConfigError(f"{key} is a setting of Spark. {_NOT_OPTIONS.get(key, where)}", key=key)
