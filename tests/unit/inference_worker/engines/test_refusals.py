"""Which errors of engines are the client's doing: those count and are logged apart."""

import ast
from collections.abc import Iterator
from pathlib import Path

import antiphon.inference_worker
from antiphon.inference_worker.engines import types
from antiphon.inference_worker.engines.types import InputRefused, RefusalReason

WORKER = Path(antiphon.inference_worker.__file__).resolve().parent

ENGINE_FAILS = {
    "all {} slots of this engine are in use",
    "eSpeak NG failed with status {}",
    "eSpeak NG has no voice {}",  # the voice is an option of the operator
    "generate needs a prefilled unit",
    "prefill must come before generate",
    "prepare must come first",
    "a prompt must come before its answer",
    "the backend server refuses the session: {}",
    "the client no longer waits for this video",  # nothing is published after a stop
    "the engine has no interim transcripts",  # the runner asks engines that have some
    "the engine no longer sees: {}",
    "the engine takes no history",  # the runner writes it into the prompt
    "the engine takes no texts",  # the runner refuses them before
    "the engine does not greet",  # the runner refuses a greeting before
    "the engine is closed",
    "the engine is not loaded",
    "the language model refused: {}",
    "the model produced values that are not finite for this session",
    "the reply could not be made: {}",
    "the session has been cleaned up",
    "the session is not prepared",
    "the session was stopped",
    "the vocoder cannot {}: {}",
    "the vocoder knows codes below {}, not {}",
    "the vocoder's sound is not finite: try another reference voice",
    "this session has ended",
    "the answer was interrupted",
    "the engine does not read texts aloud",
    "the engine does not transcribe",  # the edge and the worker refuse such a request before
    "vLLM-Omni answered {}: {}",
    "vLLM-Omni failed: {}",
    "vLLM-Omni refuses the session: {}",
    "vLLM-Omni sends sound at {} Hz, and not {} Hz",
    "{}: {}",
}
"""The texts of errors that no client causes. A new error is added here, or is an InputRefused."""


def made(tree: ast.AST, name: str) -> Iterator[ast.expr]:
    """The messages of the errors of a class that a module makes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node.args[0]


def text(message: ast.expr) -> str:
    """A literal, with `{}` for its values."""
    if isinstance(message, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in message.values
        )
    assert isinstance(message, ast.Constant), ast.unparse(message)
    return str(message.value)


def test_each_error_of_an_engine_is_the_engines_or_the_clients() -> None:
    found = {
        text(message)
        for path in WORKER.rglob("*.py")
        for message in made(ast.parse(path.read_text()), "EngineError")
    }
    assert found == ENGINE_FAILS


def test_each_refusal_has_a_reason() -> None:
    refusals = [
        each
        for each in vars(types).values()
        if isinstance(each, type) and issubclass(each, InputRefused)
    ]
    assert {each.reason for each in refusals} == set(RefusalReason)
