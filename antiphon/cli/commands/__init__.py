"""The commands of `antiphon`, a module for each group."""
