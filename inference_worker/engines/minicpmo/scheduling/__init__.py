"""The engine thread: which steps share a batch, and how a batch runs on the network."""
