"""Connections to Redis: addresses, pools, outages, and the clock that all processes share."""
