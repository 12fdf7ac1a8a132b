"""Exit codes of every command: done; the answer is negative where a question was asked; wrong usage."""

DONE, NEGATIVE, USAGE = 0, 1, 2
