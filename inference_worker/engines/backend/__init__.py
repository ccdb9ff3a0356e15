"""Serves sessions on other servers of MiniCPM-o."""
