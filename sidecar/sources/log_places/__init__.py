"""Every place where an operator keeps vLLM's log, each followed from where it was left."""
