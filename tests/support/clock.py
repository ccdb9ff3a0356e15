"""A clock that a test sets."""


class Clock:
    """In seconds; time passes only when `now` is changed."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now
