"""Engines: what turns a second of audio into listen or speak. They know neither Redis nor sockets."""
