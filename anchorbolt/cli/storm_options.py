"""The options that say how Storm wrote a state, for the commands that read it."""

from typing import TYPE_CHECKING, Annotated

from anchorbolt.cli.command import option
from anchorbolt.errors import ConfigError
from anchorbolt.storm.wrapper import Generation

if TYPE_CHECKING:
    from anchorbolt.migration_tools.storm_conversion.conversion import StormFacts
    from anchorbolt.migration_tools.storm_state import StormOptions

Registered = Annotated[
    list[str] | None,
    option(
        metavar="CLASS", help="A Java class that topology.state.kryo.register lists, in its order. May be repeated."
    ),
]
KeyClass = Annotated[str | None, option(metavar="CLASS", help="Storm's keyClass.")]
ValueClass = Annotated[str | None, option(metavar="CLASS", help="Storm's valueClass.")]
Enums = Annotated[
    list[str] | None,
    option("--enum", metavar="CLASS=A,B,…", help="The constants of an enum of yours. May be repeated."),
]
InTopology = Annotated[
    bool | None,
    option(
        "--in-topology/--outside-topology",
        help="Whether a topology of Storm 2 wrote the state. Needed only if the command asks for it.",
    ),
]
Storm = Annotated[
    Generation | None,
    option(help="First Storm release with the format of the state. Needed only if the command asks for it."),
]


def storm_options(
    registered: list[str] | None,
    key_class: str | None,
    value_class: str | None,
    enums: list[str] | None,
    in_topology: bool | None,
    storm: Generation | None,
) -> "StormOptions":
    """Return the values of these options together. Raises `ConfigError` for an enum without constants."""
    from anchorbolt.migration_tools.storm_state import StormOptions

    classes = registered or []
    of_keys, of_values = ([each, *classes] if each else classes for each in (key_class, value_class))
    return StormOptions(of_keys, of_values, dict(map(_enum_constants, enums or ())), in_topology, storm)


def storm_facts(
    registered: list[str] | None,
    key_class: str | None,
    value_class: str | None,
    enums: list[str] | None,
    in_topology: bool | None,
) -> "StormFacts":
    """Return the values of these options for Storm 1, which has no topology.state.kryo.register, and for Storm 2."""
    from anchorbolt.migration_tools.storm_conversion.conversion import StormFacts

    of_storm_1, of_storm_2 = (
        storm_options(classes, key_class, value_class, enums, in_topology, None) for classes in (None, registered)
    )
    return StormFacts(of_storm_1, of_storm_2)


def _enum_constants(text: str) -> tuple[str, list[str]]:
    """Return the class and the constants in an option `--enum`."""
    name, equals, constants = text.partition("=")
    if not (name and equals and constants):
        raise ConfigError(f"{text!r} is not of the form CLASS=A,B,C: the constants of an enum in their order.")
    return name, constants.split(",")
