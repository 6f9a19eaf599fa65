"""Recognises what Spark says if messages of Kafka are gone that a stream spout was to read."""

import re

_LOSS = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost because they are not available in Kafka any more")
_REASON = re.compile(r"failOnDataLoss[\"'`]? to [\"'`]?false[\"'`]?\.\s*(?:Reason:\s*)?(?P<reason>\S.*)")


def explained_loss(text: str, txid: int) -> str | None:
    """Return the message for an error of Spark; None if it is another one. `txid` is the last committed wave."""
    if _LOSS.search(text) is None:
        return None
    found = _REASON.search(text)
    reason = f" Spark says: {found['reason'].strip()}" if found else ""
    return (
        "messages of Kafka are gone that were not read yet: they were removed by retention (retention.ms, "
        "retention.bytes), or their topic was deleted and created again. Nothing of the missing messages is in the "
        f"state, which is at txid {txid}. Restore the topic. Or continue without them: start once with the option "
        f"failOnDataLoss=false of the spout's source, as docs/failures/source.md says.{reason}"
    )
