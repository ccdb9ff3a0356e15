"""Sessions of items and answers, as OpenAI's Realtime API has them."""
