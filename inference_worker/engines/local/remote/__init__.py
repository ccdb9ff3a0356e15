"""A language model on a server with OpenAI's chat completions."""
