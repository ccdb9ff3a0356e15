"""The written text of the model as it is shown, and as an English voice says it."""
