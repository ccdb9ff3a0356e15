"""Downloads of language models."""
