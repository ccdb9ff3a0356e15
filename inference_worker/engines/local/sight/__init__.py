"""What the engine recognises in pictures: everyday objects, colours and text, in words."""
