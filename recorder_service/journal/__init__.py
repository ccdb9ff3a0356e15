"""The journal of a recording in progress and what is read from it."""
