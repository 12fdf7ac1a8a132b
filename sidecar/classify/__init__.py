"""A window in, its judgement out. One file per cause; none of them knows another."""
