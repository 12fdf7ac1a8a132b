"""Text of the outside world in, readings out. Pure; bad text is a ``ValueError``, nothing else."""
