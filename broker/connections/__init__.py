"""Connections to Redis: pools, and what happens in an outage."""
