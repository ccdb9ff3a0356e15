"""Runs claimed sessions on an engine, one runner per session kind."""
