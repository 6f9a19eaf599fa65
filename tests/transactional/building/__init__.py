"""The builder, the spouts in memory, and the values and maps of stores outside."""
