"""The sockets between tasks and the driver: requests of tasks, and the intake of rich spouts' tasks."""
