"""What `anchorbolt run` passes on from the standard error of Java."""

import os

import pytest

from anchorbolt.cli.run.spark_engine import JvmOutput
from tests.cli.command import wait_until

USUAL = """\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
26/11/24 06:12:40 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...
26/11/24 06:12:40 WARN Utils: Your hostname, here, resolves to a loopback address: 127.0.1.1; using 10.0.0.2 instead
26/11/24 06:12:40 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
"""
IDLE = 'Traceback (most recent call last):\n  File "/pyspark/daemon.py", line 9, in worker\nBrokenPipeError: 32\n'


def test_only_the_usual_lines_are_left_out_until_it_is_muted(capsys: pytest.CaptureFixture[str]) -> None:
    output = JvmOutput()
    shown = ""

    def read_on() -> bool:
        nonlocal shown
        shown += capsys.readouterr().err
        return "printed" in shown

    with os.fdopen(output.descriptor, "w", buffering=1) as java:
        java.write(USUAL)
        java.write(IDLE + "26/11/24 06:12:41 WARN TaskSetManager: Lost task 0.0\nprinted by a bolt\n")
        wait_until(read_on, "the last line is shown")
        java.write("printed last\n")
        output.mute()
        java.write("BrokenPipeError: [Errno 32] Broken pipe\n")
    read_on()
    assert shown == "26/11/24 06:12:41 WARN TaskSetManager: Lost task 0.0\nprinted by a bolt\nprinted last\n"
