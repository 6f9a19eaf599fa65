"""Topologies: built with `TopologyBuilder`, checked once, and immutable from then on."""

from anchorbolt.topology.builder import TopologyBuilder
from anchorbolt.topology.declarer import BoltDeclarer
from anchorbolt.topology.graph import Topology

__all__ = ["BoltDeclarer", "Topology", "TopologyBuilder"]
