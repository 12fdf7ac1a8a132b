"""Frozen values that pass between the stages. Imports nothing of ours but ``errors``."""
