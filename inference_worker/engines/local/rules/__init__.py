"""Answers by rule: what the language model cannot know, or calculates wrong."""
