"""The services of `antiphon up` as child processes."""
