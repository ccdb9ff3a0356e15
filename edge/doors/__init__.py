"""The doors: a frame becomes a checked, typed command, or is refused by name; one per protocol."""
