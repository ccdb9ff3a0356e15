"""One client's session at this edge, from its admission to its end."""
