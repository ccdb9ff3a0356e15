"""What the engine hears: the words of the user as they are spoken, and the end of the turn."""
