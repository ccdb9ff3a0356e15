"""The messages of each protocol, between clients and edges."""
