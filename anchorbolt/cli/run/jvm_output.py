"""Standard error of Spark's Java process: passed on without the lines that every start of Spark prints."""

import os
import re
import sys
import threading
import time

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

# The beginning of a warning of `anchorbolt.engine.task.watchdog`.
_NOT_RETURNED = re.compile(r"(?:.*: )?(bolt '[^']*', task \d+), has been in ")

_QUIET_S = 0.1
_MOST_WAITS = 10


class JvmOutput:
    """A pipe for the standard error of Java and of Spark's Python workers, which write there too."""

    def __init__(self) -> None:
        self._reader, self.descriptor = os.pipe()
        self.not_returned: tuple[float, str] | None = None
        """The last bolt that a worker has warned of, and when, by `time.monotonic`."""
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
        self._muted = True

    def _pass_on(self) -> None:
        with open(self._reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._passed.set()
                if warned := _NOT_RETURNED.match(line):
                    self.not_returned = (time.monotonic(), warned[1])
                if not self._muted and not _USUAL.match(line):
                    sys.stderr.write(line)
                    sys.stderr.flush()
