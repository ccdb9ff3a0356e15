"""The merged replay of a finished recording."""
