"""The engines that run topologies. Imports nothing here: Spark workers reach the parts that they need by themselves."""

__all__: list[str] = []
