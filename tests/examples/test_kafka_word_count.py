"""`examples/kafka_word_count`: its bolts and its sink on `LocalCluster`, and the whole as `make` runs it."""

import json
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from anchorbolt.testing import FeederSpout
from tests.cli.command import Command
from tests.engine.jobs import chain, finished
from tests.examples.conftest import EXAMPLES, LoadJob
from tests.servers.kafka_server import KafkaServer
from tests.servers.kafka_topics import KafkaTopics


def test_each_new_count_is_one_message_with_the_word_as_its_key(load_job: LoadJob, kafka_server: KafkaServer) -> None:
    topics = KafkaTopics(kafka_server.servers)
    target = topics.new(2)
    job = load_job("kafka_word_count")
    built = job.topology({"kafka.servers": kafka_server.servers, "kafka.output": target})
    finished(
        chain(
            target,
            {
                "sentences": FeederSpout(["sentence"], [[("to be or",)], [("not to be",)]]),
                "split": job.SplitSentence(),
                "count": (job.WordCount(), 2, "word"),
                "out": (built.bolts["out"].bolt, 2, "word"),
            },
        )
    )
    messages = topics.read(target)
    rows = [json.loads(each.value or b"") for each in messages]
    assert Counter((row["word"], row["count"]) for row in rows) == Counter(
        [("to", 1), ("to", 2), ("be", 1), ("be", 2), ("or", 1), ("not", 1)]
    )
    assert [each.key for each in messages] == [row["word"].encode() for row in rows]


@pytest.mark.thorough
@pytest.mark.usefixtures("kafka_program")
@pytest.mark.timeout(900)
def test_the_example_runs_as_make_runs_it(tmp_path: Path) -> None:
    script = [sys.executable, str(EXAMPLES / "kafka_word_count" / "run.py")]
    with closing(Command(script, directory=tmp_path)) as command:
        assert command.end() == 0, repr(command)
    readme = (EXAMPLES / "kafka_word_count" / "README.md").read_text()
    shown = readme.partition("```text\n")[2].partition("```")[0]
    assert command.out.endswith(shown), command.out
