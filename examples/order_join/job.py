"""A join of two sources by multi-anchoring: what waits for its partner waits in the state, by its handle.

    python examples/order_join/job.py
    anchorbolt run examples/order_join/job.py:topology --until-empty

The first command runs in one process, on LocalCluster, and prints the joined orders; the second runs on Spark, and
writes `out-joins/` below the current directory. `order_join.orders` and `order_join.output` set number and place.
"""

from functools import partial

from anchorbolt.bolts import BaseStatefulBolt, ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder

ORDERS = 1000
ITEMS = ("apple", "bread", "cheese")


class JoinOrders(BaseStatefulBolt):
    """Joins an order and its payment, whichever comes first, and acks both when it emits the result.

    State: order id to the one that waits: its source, its handle, and its value.
    """

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.waiting = state

    def execute(self, tup):
        order_id, value = tup.values
        source, handle, other = self.waiting.get(order_id, (None, b"", None))
        if source in (None, tup.source_component):
            # The first of the two. Or the same one again, after it timed out: its old handle is of no use any more.
            self.waiting.put(order_id, (tup.source_component, tup.handle, value))
            return
        item, amount = (other, value) if source == "orders" else (value, other)
        self.collector.emit((order_id, item, amount), anchors=[handle, tup])
        self.waiting.delete(order_id)
        self.collector.ack(handle)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer):
        declarer.declare("order_id", "item", "amount")


def order(number):
    return number, ITEMS[number % len(ITEMS)]


def payment(count, number):
    """Return the payments in another order than the orders: the last one comes first."""
    paid = count - 1 - number
    return paid, 5 * paid


def wire(orders, payments, sink):
    builder = TopologyBuilder()
    builder.set_spout("orders", orders)
    builder.set_spout("payments", payments)
    joined = builder.set_bolt("join", JoinOrders(), parallelism=2)
    joined.fields_grouping("orders", "order_id").fields_grouping("payments", "order_id")
    builder.set_bolt("out", sink).global_grouping("join")
    return builder.create_topology("order-join")


def made_up(count, sink):
    orders = GeneratorSpout(["order_id", "item"], order, count=count)
    payments = GeneratorSpout(["order_id", "amount"], partial(payment, count), count=count)
    return wire(orders, payments, sink)


def topology(conf):
    return made_up(conf.get("order_join.orders", ORDERS), ParquetSink(conf.get("order_join.output", "out-joins")))


def main():
    from anchorbolt.testing import LocalCluster, TupleCapture

    captured = TupleCapture()
    LocalCluster().submit(made_up(ORDERS, captured)).await_termination()
    print(f"{len(captured.tuples)} orders were joined, such as {min(captured.tuples)}")


if __name__ == "__main__":
    main()
