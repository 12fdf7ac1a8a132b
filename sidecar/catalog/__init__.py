"""Tables of what the world names: vLLM's metrics, log lines, our own families. No behaviour."""
