"""Token2wav for many streams at once: the networks of the package `minicpmo-utils` with batched loops."""
