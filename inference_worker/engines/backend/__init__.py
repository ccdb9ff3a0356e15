"""Serves sessions on servers that speak the `/backend` protocol of the public MiniCPM-o demo."""
