"""Conversations in Chinese: the script, how its texts are read out, and its phonemes."""
