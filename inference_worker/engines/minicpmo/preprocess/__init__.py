"""Text, sound, pictures and videos, as the network takes them."""
