"""Kills of driver, workers and Kafka at random moments, while messages come; a seed decides which and when."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from tests.cli.command import Command, run_arguments, wait_until
from tests.crash.kafka.job import SOURCE, TARGET, conf_of, problems, sentences
from tests.support.kafka_server import KafkaServer
from tests.support.kafka_topics import KafkaTopics

BATCH = 50
_LONGEST_S = 6.0  # from a start, or from the last kill, to a kill
VICTIMS = ("driver", "worker", "kafka")


class RandomKills:
    """A Kafka of its own, the job, and what was sent to it."""

    def __init__(self, server: KafkaServer, folder: Path, seed: int, say: Callable[[str], None] = print) -> None:
        folder.mkdir(parents=True)
        self._server = server
        self._folder = folder
        self._random = Random(seed)
        self._say = say
        self._topics = KafkaTopics(server.servers)
        self._topics.create(SOURCE, 3)
        self._topics.create(TARGET, 3)
        self._sent: list[str] = []
        self.killed: Counter[str] = Counter()
        conf = conf_of(server, BATCH) | {"topology.state.checkpoint.interval.ms": 200}
        (folder / "conf.json").write_text(json.dumps(conf))

    def run(self, kills: int) -> list[str]:
        """Kill so many times, let the job finish, and say what is wrong with the messages in the target."""
        driver = self._start()
        try:
            for number in range(1, kills + 1):
                self._send(4 * BATCH)
                time.sleep(self._random.uniform(0.0, _LONGEST_S))
                victim = self._random.choice(VICTIMS)
                if victim == "kafka":
                    self._server.kill()
                    self._server.start()
                elif victim == "worker":
                    self._kill_worker(driver)
                if victim == "driver" or driver.has_ended:
                    driver.close()
                    driver = self._start()
                self.killed[victim] += 1
                self._say(f"kill {number} of {kills}: {victim}")
        finally:
            driver.close()
        with closing(self._command("--until-empty")) as last:
            assert last.end() == 0, repr(last)
        return problems(self._topics, self._sent)

    def _start(self) -> Command:
        driver = self._command()
        wait_until(lambda: "recovery:" in driver.out or driver.has_ended, f"the start of {driver!r}")
        assert not driver.has_ended, repr(driver)
        return driver

    def _command(self, *options: str) -> Command:
        conf = str(self._folder / "conf.json")
        arguments = run_arguments("tests.crash.kafka.job:topology", "--conf", conf, "--master", "local[2]", *options)
        return Command(arguments, directory=self._folder)

    def _send(self, count: int) -> None:
        more = sentences(len(self._sent), count)
        self._topics.send(SOURCE, more)
        self._sent += more

    def _kill_worker(self, driver: Command) -> None:
        for process in driver.session():
            with suppress(OSError):
                if "pyspark.daemon" in Path(f"/proc/{process}/cmdline").read_text() and process != driver.pid:
                    os.kill(process, signal.SIGKILL)
                    return
