"""Scripted calls in real time, and how well the other side takes turns in them."""
