"""The figures of a run: what its tasks did, summed over Storm's windows. Kept on the driver, fed by committed waves."""
