"""Helpers of the MiniCPM-o tests: the recorded checkpoint, a GPU without numbers, stand-ins."""
