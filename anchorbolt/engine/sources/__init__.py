"""The spouts that the driver runs itself: their tasks, the intake of a wave, and the fate of their messages."""
