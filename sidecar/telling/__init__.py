"""How things are said and drawn for people: words, figures, axes, markup. Pure, and of no one page."""
