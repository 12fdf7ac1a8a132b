"""The windows of the last hours, bounded: their results as compressed text, their figures packed. Pure."""
