"""What the assistant looks up: a dictionary and a table of facts."""
