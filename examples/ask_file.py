"""Ask a recorded question: python examples/ask_file.py QUESTION.wav [URL]"""

import sys

from antiphon import Client

if len(sys.argv) < 2:
    sys.exit(__doc__)
question = sys.argv[1]
client = Client(sys.argv[2] if len(sys.argv) > 2 else "ws://127.0.0.1:8006")

reply = client.ask(question)
print(reply.text)
reply.save("reply.wav")
print("saved in reply.wav, recorded as", reply.recording_id)
