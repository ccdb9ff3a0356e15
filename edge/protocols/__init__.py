"""Pure translators: wire messages to stream entries and back, and which moves are legal when."""
