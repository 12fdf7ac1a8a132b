"""Samples in, windows out: deltas, restarts, the server's state, incidents and their evidence."""
