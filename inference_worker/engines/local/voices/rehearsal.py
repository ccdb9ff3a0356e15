"""The answers that begin most conversations. Spoken ahead, they start without the time that speech takes."""

REHEARSED = (
    "Hello! How can I help you?",
    "I am well, thank you. How can I help you?",
    "My name is Antiphon. I am a small voice assistant.",
    "Yes, I hear you.",
    "I have no access to the internet, so I do not know the weather.",
    "You are welcome.",
    "Goodbye! It was nice to talk with you.",
    "I did not understand that. Please say it in a whole sentence.",
)
"""The most likely first. Together they take half a minute of CPU time, on an idle worker."""
