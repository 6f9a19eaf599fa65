"""The pages that `test_as_printed.py` follows, and what of them it saves, types and expects."""

from dataclasses import dataclass

from tests.docs.pages import Block


@dataclass(frozen=True)
class Followed:
    """What a test does with a page.

    Attributes:
        files: the files that the page says to save, in its order.
        without: the sections whose commands are not typed, and whose output is not expected.
    """

    files: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def runs(self, block: Block) -> bool:
        """Whether the test saves this block, types it, or expects it as output."""
        return bool(block.file) or (block.language in ("sh", "text") and block.section not in self.without)


FOLLOWED = {
    # The tests of the examples run the job of the README on the other stores.
    "README.md": Followed(
        ("word_count.py", "test_word_count.py"),
        ("What it does for you", "What sets it apart", "Two commands", "Install", "Another store"),
    ),
    "docs/quickstart.md": Followed(("totals.py", "test_totals.py", "make_orders.py", "check.py"), ("Install",)),
    "docs/testing.md": Followed(
        (
            *("visits.py", "test_visits.py", "names.py", "test_names.py", "test_minutes.py"),
            *("test_redis.py", "test_crashes.py"),
        )
    ),
    "docs/reliability.md": Followed(("folder_words.py", "test_folder_words.py")),
    "docs/transactional.md": Followed(
        (
            *("global_count.py", "test_global_count.py", "order_totals.py", "test_order_totals.py"),
            *("queue_spout.py", "queue_words.py", "test_queue_words.py"),
        )
    ),
    "docs/custom_provider.md": Followed(("test_postgres.py",), ("Run a job with it",)),
    "docs/migrating_from_storm.md": Followed(
        without=("To another Storm", "State in HBase", "Into a topology of Anchorbolt")
    ),
    "examples/batch_sums/README.md": Followed(),
    "examples/global_count/README.md": Followed(),
    "examples/order_join/README.md": Followed(),
    "examples/transactional_words/README.md": Followed(),
}
