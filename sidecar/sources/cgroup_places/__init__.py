"""Where the server's memory cgroup is, and what one look at it reads. All of it blocks."""
