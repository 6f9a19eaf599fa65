"""The program of a worker process of these tests: `python -m tests.engine.workers.processes.worker`.

It reads a pickled `Orders` from its standard input, so that nothing secret is in its arguments or environment.
"""

from __future__ import annotations

import logging
import pickle
import socket
import sys
from typing import NamedTuple

from anchorbolt.engine.spark.intake.client import AskedBatchDriver, IntakeAddress
from anchorbolt.engine.task.watchdog import allow_to_end_this_process
from anchorbolt.engine.workers.links import Address
from anchorbolt.engine.workers.process import WorkerProcess
from anchorbolt.faults.injection import install_faults
from anchorbolt.serialization import pack, unpack


class Orders(NamedTuple):
    """What a worker process must know."""

    plan: bytes
    slots: int
    driver: Address
    slot: int
    incarnation: int
    emitters: IntakeAddress | None
    folder: str  # for blobs that do not fit into memory
    proxies: tuple[str, int] | None  # where the worker gets the port under which it registers: see `network`


class ProxiedWorker(WorkerProcess):
    """Registers with the port of a proxy in front of its own."""

    proxies: tuple[str, int]

    def _hello(self, connection: socket.socket) -> bytes:
        slot, incarnation, host, port, *rest = unpack(super()._hello(connection))
        with socket.create_connection(self.proxies) as asked, asked.makefile("rwb") as file:
            file.write(f"{slot} {port}\n".encode())
            file.flush()
            port = int(file.readline())
        return pack([slot, incarnation, host, port, *rest])


def main() -> None:
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(message)s")
    orders: Orders = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - made by the test
    install_faults()
    allow_to_end_this_process()
    plan = pickle.loads(orders.plan)  # noqa: S301 - likewise
    kind: type[WorkerProcess] = WorkerProcess
    if orders.proxies is not None:
        ProxiedWorker.proxies, kind = orders.proxies, ProxiedWorker
    emitters = None if orders.emitters is None else AskedBatchDriver(orders.emitters)
    kind(plan, orders.slots, orders.driver, orders.slot, orders.incarnation, emitters, orders.folder).serve()


if __name__ == "__main__":
    main()
