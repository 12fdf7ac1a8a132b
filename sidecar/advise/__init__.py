"""A judgement and what is remembered in, one lever out. The policy is the rows of ``rules.py``."""
