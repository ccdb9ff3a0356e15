"""A spoken assistant for any CPU: Silero VAD, Moonshine ASR, a GGUF language model, Kokoro's voices."""
