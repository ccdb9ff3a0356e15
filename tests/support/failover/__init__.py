"""Clients that talk while the servers of a Redis are lost, replaced, or hand slots over."""
