"""The Redis server itself: a private one for one machine, and a check of any other."""
