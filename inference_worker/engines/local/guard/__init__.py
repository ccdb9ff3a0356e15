"""What ends an answer of a small model: repetition, obscenity, and excuses instead of content."""
