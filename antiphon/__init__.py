"""Antiphon: full-duplex voice and video conversations with MiniCPM-o 4.5, for many users at once."""
