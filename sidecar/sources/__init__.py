"""Everything that reads the outside world: one file per source, each a thin shell."""
