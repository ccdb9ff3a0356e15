"""The protocols, without I/O: frames become commands, commands and stream entries become actions."""
