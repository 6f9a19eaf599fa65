"""The driver's side of a round: tasks and their reports. The driver's main code is `checkpoint.coordinator`."""
