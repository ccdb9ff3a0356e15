"""What `antiphon recordings` reads and shows."""
