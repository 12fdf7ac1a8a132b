"""The capacity benchmark: from the runs of its stages to what load is safe, and how that is told."""
