"""The engine thread: which steps run together, and how a batch runs on the network."""
