"""Servers of the `/backend` protocol of the public MiniCPM-o demo: the demo's own, and `llama-omni-server`."""
