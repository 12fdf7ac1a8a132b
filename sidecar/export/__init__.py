"""Reports on their way out: metrics, HTTP, JSON."""
