"""Samples as they are taken -> a recording of which the same ticks can be made again."""
