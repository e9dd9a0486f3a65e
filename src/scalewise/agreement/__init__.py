"""Says whether runs compute the same; where they part, in roundings that are measured, and why."""
