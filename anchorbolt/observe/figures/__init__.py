"""The figures of a run's tasks, summed over Storm's windows. The driver keeps them and adds each committed wave."""
