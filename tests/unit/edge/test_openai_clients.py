"""Whose connection it is, on the path that OpenAI's clients and those of the demo share."""

import pytest

from antiphon.edge.openai_clients import is_openai_client

V1 = "/v1/realtime"

OPENAI: dict[str, tuple[str, list[str], dict[str, str], list[str]]] = {
    "a model": (V1, ["model"], {}, []),
    "an intent": (V1, ["intent"], {}, []),
    "a call": (V1, ["call_id"], {}, []),
    "a slash at the end": (f"{V1}/", ["model"], {}, []),
    "the alias": ("/openai/v1/realtime", [], {}, []),
    "a base without v1": ("/realtime", ["model"], {}, []),
    "an Azure base": ("/openai/realtime", ["model"], {}, []),
    "a browser": (V1, [], {}, ["realtime", "openai-insecure-api-key.ek_x"]),
    "a browser of the agents": (V1, [], {}, ["openai-agents-sdk.0.20.0"]),
    "the beta header": (V1, [], {"openai-beta": "realtime=v1"}, []),
    "the SDK": (V1, [], {"user-agent": "OpenAI/Python 3.57.0"}, []),
    "the asynchronous SDK": (V1, [], {"user-agent": "AsyncOpenAI/Python 3.57.0"}, []),
    "the agents": (V1, [], {"user-agent": "Agents/Python 0.24.0"}, []),
}
DEMO: dict[str, tuple[str, list[str], dict[str, str], list[str]]] = {
    "nothing": (V1, [], {}, []),
    "a key alone": (V1, [], {"authorization": "Bearer key"}, []),
    "a mode": (V1, ["mode"], {}, []),
    "a mode and a slash": (f"{V1}/", ["mode"], {}, []),
    "a mode and a model": (V1, ["mode", "duplex", "model"], {}, []),
    "a mode and the SDK": (V1, ["mode"], {"user-agent": "OpenAI/Python 3.57.0"}, []),
    **{
        name: (V1, [name, "model"], {}, [])
        for name in (
            *("resume", "resume_token", "capabilities", "notices"),
            *("transcript", "playback_ack", "pcm"),
        )
    },
    "our subprotocol": (V1, ["model"], {}, ["antiphon.binary.v1"]),
    "our key": (V1, ["model"], {}, ["antiphon.key.eA"]),
    "the makers' SDK": (V1, [], {}, ["map.realtime"]),
    "a browser of the demo": (V1, ["region"], {"user-agent": "Mozilla/5.0"}, []),
}


@pytest.mark.parametrize("handshake", OPENAI.values(), ids=OPENAI)
def test_clients_of_openai(handshake: tuple[str, list[str], dict[str, str], list[str]]) -> None:
    assert is_openai_client(*handshake)


@pytest.mark.parametrize("handshake", DEMO.values(), ids=DEMO)
def test_clients_of_the_demo(handshake: tuple[str, list[str], dict[str, str], list[str]]) -> None:
    assert not is_openai_client(*handshake)
