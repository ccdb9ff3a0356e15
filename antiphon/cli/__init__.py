"""The antiphon command: run the stack, talk to it, look inside."""
