"""The JSON files of a recording, and the layout of its replay."""
