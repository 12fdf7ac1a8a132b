"""Judgements in, what is shown over many windows out: episodes, latency."""
