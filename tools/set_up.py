"""Prepare a checkout for the commands of the Makefile: `set_up.py --venv .venv [--spark X.Y.Z] [--java] [--redis] …`.

Set-up does nothing twice, so a second call takes a fraction of a second. It uses the standard library only. Old Pythons
must be able to parse this file, up to the line that refuses them.
"""

import argparse
import fcntl
import sys
from pathlib import Path

OLDEST, NEWEST = (3, 10), (3, 14)

CHECKOUT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Set up what the arguments ask for. On failure, say what the user can do and exit with status 1."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        sys.exit(
            "set-up: {} is Python {}.{}; Anchorbolt needs 3.10 to 3.14. Name one: make PYTHON=python3.12 …".format(
                sys.executable, *sys.version_info[:2]
            )
        )
    # Imported only here: these modules use syntax that only the supported Pythons know.
    import chromium_program
    import hbase_artefacts
    import hdfs_artefacts
    import java_runtime
    import kafka_artefacts
    import other_systems
    import postgres_program
    import prometheus_program
    import redis_program
    import s3_artefacts
    from own_environment import BYTEWAX, DOCS, FLINK
    from progress import SetUpError, optional, say
    from record import Record
    from virtual_environment import VirtualEnvironment

    arguments = parse_arguments()
    directory = CHECKOUT / arguments.venv
    # Of two makes at the same time, the second waits and then has nothing left to do.
    with open(str(directory) + ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another set-up of {arguments.venv}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            environment = VirtualEnvironment(CHECKOUT, directory, spark=arguments.spark)
            environment.ensure()
            record = Record.load(directory)
            if arguments.java:
                java_runtime.ensure(environment, record)
            if arguments.redis:
                redis_program.ensure(record)
            if arguments.hbase:
                hbase_artefacts.ensure(record.java_home, log=environment.log)
            if arguments.kafka:
                kafka_artefacts.ensure(record.java_home, log=environment.log)
            if arguments.hdfs:
                hdfs_artefacts.ensure(record.java_home, log=environment.log)
            if arguments.s3:
                s3_artefacts.ensure(log=environment.log)
            if arguments.postgres:
                postgres_program.ensure(record)
            if arguments.prometheus:
                prometheus_program.ensure(record)
            if arguments.chromium:
                chromium_program.ensure(record)
            if arguments.other_systems:
                other_systems.ensure(record.java_home, log=environment.log)
            if arguments.peers:
                for peer in (BYTEWAX, FLINK):
                    with optional(peer.name):
                        peer.ensure(log=environment.log)
            if arguments.docs:
                DOCS.ensure(log=environment.log)
            record.save(directory)
        except SetUpError as error:
            sys.exit(f"set-up: {error}")


def parse_arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Prepare a checkout of Anchorbolt.")
    parser.add_argument("--venv", required=True, help="the virtual environment's directory, below the checkout")
    parser.add_argument("--spark", default=None, help="a PySpark version to take instead of the locked one")
    parser.add_argument("--java", action="store_true", help="the command starts Spark")
    parser.add_argument("--redis", action="store_true", help="the command starts a Redis server")
    parser.add_argument("--hbase", action="store_true", help="the command starts HBase")
    parser.add_argument("--kafka", action="store_true", help="the command starts Kafka")
    parser.add_argument("--hdfs", action="store_true", help="the command starts HDFS")
    parser.add_argument("--s3", action="store_true", help="the command starts an S3 server")
    parser.add_argument("--postgres", action="store_true", help="the command starts a PostgreSQL server")
    parser.add_argument("--prometheus", action="store_true", help="the command starts a Prometheus")
    parser.add_argument("--other-systems", action="store_true", help="the command runs Storm, Bytewax and Flink")
    parser.add_argument("--peers", action="store_true", help="the command runs Bytewax and Flink's Python API")
    parser.add_argument("--chromium", action="store_true", help="the command opens pages in a Chromium")
    parser.add_argument("--docs", action="store_true", help="the command builds the documentation's site")
    return parser.parse_args()


if __name__ == "__main__":
    main()
