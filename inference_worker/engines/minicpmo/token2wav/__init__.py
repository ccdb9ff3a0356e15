"""Token2wav of the package `minicpmo-utils` for many streams at once: its networks, our loops."""
