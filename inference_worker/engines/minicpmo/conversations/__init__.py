"""The rules of one conversation, written as generators of engine steps."""
