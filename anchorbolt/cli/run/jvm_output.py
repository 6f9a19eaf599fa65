"""Standard error of Spark's Java process and of its Python workers, without the lines that every start prints."""

import os
import re
import sys
import threading

# Lines of a run in which nothing is wrong, from Java itself, Spark's launcher and Spark's start.
_USUAL = re.compile(
    r"WARNING: Using incubator modules: "
    r"|Using Spark's default log4j profile: "
    r"|Setting default log level to "
    r"|To adjust logging level use sc\.setLogLevel"
    r"|.* WARN NativeCodeLoader: Unable to load native-hadoop library"
    r"|.* WARN Utils: (Your hostname, .* resolves to a loopback address|Set SPARK_LOCAL_IP if you need to bind)"
    r"|.* WARN Utils: Service 'SparkUI' could not bind on port"
    r"|WARNING: package sun\.security\.action not in java\.base"
)

# Spark ends workers that were idle for a minute; then PySpark's daemon prints a traceback with these lines.
_OF_DAEMON = re.compile(r'Traceback \(most recent call last\):|  File ".*/pyspark/daemon\.py"')

_QUIET_S = 0.1
_MOST_WAITS = 10


class JvmOutput:
    """A pipe for the standard error of Java and of Spark's Python workers, which write there too.

    Its lines go to `sys.stderr`, as they are.
    """

    def __init__(self, *, everything: bool = False) -> None:
        self._everything = everything  # whether to pass on the usual lines, too
        self._reader, self.descriptor = os.pipe()
        self._muted = False
        self._passed = threading.Event()
        threading.Thread(target=self._pass_on, name="anchorbolt-jvm-output", daemon=True).start()

    def mute(self) -> None:
        """Drop all further lines: a worker that ends after its Java process complains of the closed pipe.

        Waits until no line has come for a moment, so that what a bolt has printed is still shown.
        """
        for _ in range(_MOST_WAITS):
            self._passed.clear()
            if not self._passed.wait(_QUIET_S):
                break
        self._muted = not self._everything

    def _pass_on(self) -> None:
        held: list[str] = []
        with open(self._reader, encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                self._passed.set()
                held.append(line)
                if _OF_DAEMON.match(line) and not self._everything:
                    continue
                is_idle = line.startswith("BrokenPipeError") and any("/pyspark/daemon.py" in each for each in held)
                if self._everything or not (self._muted or is_idle or _USUAL.match(line)):
                    sys.stderr.write("".join(held))
                    sys.stderr.flush()
                held.clear()
