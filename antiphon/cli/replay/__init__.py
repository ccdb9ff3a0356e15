"""Plays a recorded session again and compares the two runs."""
