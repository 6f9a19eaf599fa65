"""The commands `anchorbolt state …`, except those of savepoints. None of them starts Spark."""

from anchorbolt.cli.command import App

app = App(
    "Inspect the state in any store, change the state of a stopped topology, and move it: to other numbers of tasks, "
    "into savepoints and back."
)
