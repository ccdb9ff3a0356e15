"""Voices of the local engine: Kokoro's networks, eSpeak NG, and the queue of their work."""
