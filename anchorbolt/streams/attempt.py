"""`TransactionAttempt`, the first value of every tuple of a transactional topology."""

from typing import NamedTuple


class TransactionAttempt(NamedTuple):
    """One try at processing a batch.

    Attributes:
        txid: The batch's transaction id. The first batch has 1, each following one the next number. A batch that is
            tried again keeps its txid.
        attempt_id: Differs between any two tries of a batch in one run.
    """

    txid: int
    attempt_id: int
