"""The command `anchorbolt`: its sub-commands and the arguments of `anchorbolt run`."""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import anchorbolt
import anchorbolt.cli.savepoints  # the commands of `state`
import anchorbolt.cli.state.changes  # likewise
import anchorbolt.cli.state.importing  # likewise
import anchorbolt.cli.state.reading  # likewise
import anchorbolt.cli.state.upkeep  # likewise
from anchorbolt.cli import exit_codes
from anchorbolt.cli.command import App, option
from anchorbolt.cli.dead_letters import app as dead_letters_app
from anchorbolt.cli.history import history, ui
from anchorbolt.cli.migrate import EXIT_CODES
from anchorbolt.cli.migrate import app as migrate_app
from anchorbolt.cli.state import app as state_app
from anchorbolt.cli.storm_conversion import convert
from anchorbolt.cli.storm_state import storm_state
from anchorbolt.util.garbage import spare_imports

app = App("Storm-style topologies on Apache Spark, with durable, exactly-once state.")
app.add_typer(state_app, name="state")
app.add_typer(migrate_app, name="migrate")
app.add_typer(dead_letters_app, name="dead-letters")
migrate_app.command("storm-state")(storm_state)
migrate_app.command("convert", epilog=EXIT_CODES)(convert)
app.command("history")(history)
app.command("ui")(ui)


class LogFormat(str, Enum):
    """The output of `anchorbolt run`: lines for people, or events for programs."""

    TEXT = "text"
    JSON = "json"


def main() -> None:
    """Run the command with the arguments of this process, and exit with its exit code."""
    spare_imports()
    app(prog_name="anchorbolt")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anchorbolt {anchorbolt.__version__}")
        raise typer.Exit


def _spark_option(metavar: str, help: str) -> Any:
    return option(metavar=metavar, help=help, rich_help_panel="Spark's options")


def _pairs(texts: list[str]) -> dict[str, str]:
    for each in texts:
        if "=" not in each:
            raise typer.BadParameter(f"{each!r} is not of the form KEY=VALUE", param_hint="--spark-conf")
    return {key.strip(): value for key, _, value in (each.partition("=") for each in texts)}


@app.callback()
def anchorbolt_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Storm-style topologies on Apache Spark, with durable, exactly-once state."""


@app.command(
    epilog="Exit codes: 0 finished or stopped cleanly; 1 the job failed; 2 wrong usage, job, configuration or "
    "topology; 3 no usable Java or Spark; 4 the state store refused or cannot be reached; 130 left at once by a second "
    "Ctrl-C."
)
def run(
    job: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            show_default=False,
            help="A topology, or a function that builds one, with or without a parameter 'conf'. MODULE is a dotted "
            "module, searched in the current directory first, or a .py file.",
        ),
    ],
    conf: Annotated[Path | None, option(metavar="FILE", help="Configuration, a YAML or JSON file.")] = None,
    overrides: Annotated[
        list[str] | None,
        option(
            "--set",
            metavar="KEY=VALUE",
            help="Set one key, overriding the file; VALUE is a text, a number, true, or a list or mapping of YAML; "
            "inner keys dotted. May be repeated. Not for passwords: use passwordEnv or passwordFile.",
        ),
    ] = None,
    master: Annotated[str | None, option(metavar="URL", help="Spark master. [default: local[*]]")] = None,
    packages: Annotated[
        str | None, _spark_option("GROUP:ARTIFACT:VERSION,…", "Maven packages for the driver and the executors.")
    ] = None,
    jars: Annotated[str | None, _spark_option("FILE,…", "Java archives for the driver and the executors.")] = None,
    driver_memory: Annotated[str | None, _spark_option("SIZE", "Memory of the driver's JVM, as 4g.")] = None,
    executor_memory: Annotated[str | None, _spark_option("SIZE", "Memory of each executor's JVM, as 4g.")] = None,
    num_executors: Annotated[int | None, _spark_option("N", "Number of executors.")] = None,
    executor_cores: Annotated[int | None, _spark_option("N", "Cores of each executor.")] = None,
    spark_conf: Annotated[
        list[str] | None, _spark_option("KEY=VALUE", "Another setting of Spark. May be repeated.")
    ] = None,
    workers: Annotated[
        int | None,
        option(
            "--workers",
            metavar="N",
            help="Keep the tasks of bolts in N processes for the whole run; 0 runs each wave as Spark jobs. Overrides "
            "topology.workers.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        option(
            "--metrics-port",
            metavar="PORT",
            help="Show metrics for Prometheus on this port of 127.0.0.1; 0 chooses a free one. Overrides "
            "topology.metrics.port.",
        ),
    ] = None,
    ui_port: Annotated[
        int | None,
        option(
            "--ui-port",
            metavar="PORT",
            help="Show a page of the topology on this port of 127.0.0.1, and its REST API; 0 chooses a free one. "
            "Overrides topology.ui.port. Needs anchorbolt\\[ui].",
        ),
    ] = None,
    ui_actions: Annotated[
        bool,
        typer.Option(
            "--ui-actions",
            help="Let the page pause and stop the run. Needs a token: topology.ui.tokenEnv or topology.ui.tokenFile.",
        ),
    ] = False,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Process the input that the source has now, and end.")
    ] = False,
    close_windows: Annotated[
        bool,
        typer.Option("--close-windows", help="With --until-empty: close all windows by event time before the end."),
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="At the end, show where the time went, by component and phase.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the engine's own log, and whole tracebacks of errors.")
    ] = False,
    log_format: Annotated[
        LogFormat,
        option(
            "--log-format",
            help="text, or json: one JSON object a line on standard error for each wave, warning and error. [default: "
            "text]",
        ),
    ] = LogFormat.TEXT,
) -> None:
    """Run a job's topology on Spark until it is stopped. It continues after its last committed wave.

    Ctrl-C or SIGTERM finish the current wave and stop cleanly; a second Ctrl-C leaves at once.
    """
    if close_windows and not until_empty:
        raise typer.BadParameter("a run that does not end closes none: add --until-empty", param_hint="--close-windows")
    # --help and --version must not wait for these imports.
    from anchorbolt.cli.run.progress import Display
    from anchorbolt.cli.run.run_job import Run
    from anchorbolt.cli.run.spark_engine import SparkEngine

    spark = {
        "packages": packages,
        "jars": jars,
        "driver-memory": driver_memory,
        "executor-memory": executor_memory,
        "num-executors": num_executors,
        "executor-cores": executor_cores,
        "conf": _pairs(spark_conf or []) or None,
    }
    given = {name: value for name, value in spark.items() if value is not None}
    options: dict[str, Any] = {
        "topology.workers": workers,
        "topology.metrics.port": metrics_port,
        "topology.ui.port": ui_port,
    }
    options |= {"topology.ui.actions": "true"} if ui_actions else {}
    options |= {"topology.windows.close.when.empty": "true"} if close_windows else {}
    options = {key: value for key, value in options.items() if value is not None}
    as_events = log_format is LogFormat.JSON
    display: Display = Display()
    if as_events:
        from anchorbolt.cli.run.event_display import EventDisplay

        display = EventDisplay()
    engine = SparkEngine(master, verbose=verbose, events=as_events)
    run = Run(job, engine, display, conf, overrides or (), given, options, until_empty, verbose, profile)
    code = run.to_exit_code()
    if code == exit_codes.LEFT_AT_ONCE:
        # A normal exit would wait for the threads of the wave. Spark ends with this process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code)
