"""Runs `job.py` on a Kafka of its own: `make kafka-word-count`.

Starts Kafka, fills the topic `sentences`, kills the job once while it sends, runs it to its end, and compares the
topic `word-counts`, as a consumer with `read_committed` sees it, with a plain count.
"""

import json
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
SENTENCES = [
    "to be or not to be that is the question",
    "whether tis nobler in the mind to suffer",
    "the slings and arrows of outrageous fortune",
    "or to take arms against a sea of troubles",
    "and by opposing end them",
]
ROUNDS = 200


def main() -> int:
    # The example runs from a checkout: the tests know how to start a Kafka.
    sys.path.append(str(CHECKOUT))
    from anchorbolt.testing import CrashRunner, Fault, FaultPoint
    from tests.servers.kafka_server import KafkaProgram, KafkaServer
    from tests.servers.kafka_topics import KafkaTopics

    try:
        program = KafkaProgram.installed()
    except LookupError as missing:
        print(f"{missing}. `make kafka-word-count` does so, too.", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as work, closing(KafkaServer(program, Path(work, "kafka"))) as server:
        server.directory.mkdir()
        server.start()
        print(f"Kafka listens at {server.servers}.")
        topics = KafkaTopics(server.servers)
        topics.create("sentences", 3)
        topics.create("word-counts", 3)
        topics.send("sentences", SENTENCES * ROUNDS)
        print(f"The topic 'sentences' has {ROUNDS * len(SENTENCES):,} messages.")
        runner = CrashRunner(
            f"{CHECKOUT / 'examples' / 'kafka_word_count' / 'job.py'}:topology",
            Path(work, "job"),
            conf={"kafka.servers": server.servers, "kafka.batch": 250, "spark": {"jars": server.connector_jars}},
            arguments=["--master", "local[2]"],
        )
        killed = Fault(FaultPoint.SINK_MESSAGES_SENT, txid=1)
        report = runner.run(killed)
        print(f"The driver was killed {len(report.struck)} time while it sent messages, and started again.")
        rows = [json.loads(each.value or b"") for each in topics.read("word-counts")]
    expected = Counter(word for sentence in SENTENCES for word in sentence.split() for _ in range(ROUNDS))
    once = sorted((word, number) for word, count in expected.items() for number in range(1, count + 1))
    found = sorted((row["word"], row["count"]) for row in rows)
    for word, count in expected.most_common(3):
        print(f"{word}: {count}")
    print(f"The topic 'word-counts' has {len(found):,} messages, {'each exactly once' if found == once else 'WRONG'}.")
    return 0 if found == once and report.struck == (killed,) else 1


if __name__ == "__main__":
    sys.exit(main())
