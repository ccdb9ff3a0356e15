"""Connections to clients, below sessions: frames, the send queue, and the server protocols."""
