"""The sound, pictures and videos of a session as files."""
