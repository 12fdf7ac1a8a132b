"""Recordings: folders of raw rows, one file for each source, and the ticks that they give again."""
