"""Topologies: a `TopologyBuilder` checks the graph once and returns it immutable."""

from anchorbolt.topology.builder import TopologyBuilder
from anchorbolt.topology.components import BoltDeclarer
from anchorbolt.topology.graph import Topology

__all__ = ["BoltDeclarer", "Topology", "TopologyBuilder"]
