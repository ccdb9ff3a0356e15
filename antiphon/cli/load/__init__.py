"""Users by the dozen, and how well they were served: what `antiphon bench` does."""
