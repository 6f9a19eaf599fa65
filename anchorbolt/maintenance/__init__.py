"""Transactions that are no waves: they move or change the state of a topology between two waves."""
