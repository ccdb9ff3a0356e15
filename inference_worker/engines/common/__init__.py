"""Media helpers that several engines share."""
