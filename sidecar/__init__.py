"""Runs beside one vLLM server and names what every time window suffered from.

Data flows one way: ``sources -> assemble -> classify -> derive -> export``, once per tick.
"""

__version__ = "0.1.0"
