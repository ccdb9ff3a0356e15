"""Files of recordings below one directory, for the HTTP routes and the CLI."""
