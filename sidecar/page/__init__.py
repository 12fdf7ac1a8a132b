"""The status page for people: what is wrong, since when, what shows it, what to do, what is not seen. Pure."""
