"""Turns text, audio, images and videos into the input of the network."""
