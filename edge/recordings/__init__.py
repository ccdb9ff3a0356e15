"""Recordings as clients read them: files below one directory, and nothing outside of it."""
