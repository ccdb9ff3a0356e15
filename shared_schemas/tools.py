"""Tools of a chat request, in the form of OpenAI's API: their definitions, and the calls of them."""

from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, Field

from antiphon.shared_schemas.long_bytes import LongText
from antiphon.shared_schemas.wire import ClientMessage

MAX_TOOLS = 128
MAX_CALLS = 128
MAX_TOOL_BYTES = 64 * 1024
"""Of all definitions of a request together, as JSON."""
MAX_JSON_DEPTH = 32
"""Of objects that are stored inside other JSON, whose encoder accepts 254 levels."""


def are_arguments(text: str) -> bool:
    """Whether this is the text of a JSON object that the history of a request may have."""
    try:
        return is_usable_object(orjson.loads(text))
    except orjson.JSONDecodeError:
        return False


def is_usable_object(value: object) -> bool:
    """Whether this is a JSON object that is not nested too deep and has no LongText."""
    return isinstance(value, dict) and _fits(value, MAX_JSON_DEPTH)


def _check_arguments(text: str) -> str:
    if not are_arguments(text):
        raise ValueError(
            f"must be the text of a JSON object, nested at most {MAX_JSON_DEPTH} deep; "
            "send the arguments back as they came"
        )
    return text


def _check_parameters(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type", "object") != "object":
        raise ValueError("must be a JSON Schema whose `type` is `object`")
    if not is_usable_object(schema):
        raise ValueError(
            f"nested more than {MAX_JSON_DEPTH} deep, or a text is too long; send a flatter schema"
        )
    if len(orjson.dumps(schema)) > MAX_TOOL_BYTES:  # pydantic takes 20 ms to write a large one
        raise ValueError(f"more than {MAX_TOOL_BYTES} bytes of JSON; send a smaller schema")
    return schema


def _fits(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return not isinstance(value, LongText)
    items = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_fits(item, levels - 1) for item in items)


FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class ToolFunction(ClientMessage):
    """A function. `parameters` is the JSON Schema of its arguments."""

    name: FunctionName
    description: str | None = None
    parameters: Annotated[dict[str, Any], AfterValidator(_check_parameters)] | None = None


class ToolDefinition(ClientMessage):
    """A tool that the model may call."""

    type: Literal["function"]
    function: ToolFunction


class CalledFunction(ClientMessage):
    """The function of a call. `arguments` is the text of a JSON object."""

    name: FunctionName
    arguments: Annotated[str, AfterValidator(_check_arguments)]


class ToolCallMessage(ClientMessage):
    """A call in an answer, and in the history of the next request."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    type: Literal["function"]
    function: CalledFunction
