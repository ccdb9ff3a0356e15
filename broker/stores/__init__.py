"""Small records in Redis: switches, voices, share links, recorder progress; and their cleanup."""
