"""The HTTP routes of the edge."""
