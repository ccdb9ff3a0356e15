"""Audio, images, videos and voices, checked before they leave the edge."""
