"""What a language model says to have counted, in the bodies of several providers."""

from __future__ import annotations

import json

import pytest

from overlimit.http import total_tokens
from overlimit.http.received import Received

OPENAI = {
    "object": "chat.completion",
    "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
}
ANTHROPIC = {"type": "message", "usage": {"input_tokens": 25, "output_tokens": 17}}
BEGINNING = {"type": "message_start", "message": {"usage": {"input_tokens": 25, "output_tokens": 1}}}
END = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 17}}


def streamed(*events: object) -> str:
    return "".join(f"event: x\ndata: {json.dumps(each)}\n\n" for each in events)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (json.dumps(OPENAI), 21),
        (json.dumps(ANTHROPIC, indent=2), 42),
        (streamed({"choices": [], "usage": None}, OPENAI) + "data: [DONE]\n\n", 21),
        (streamed({"type": "response.completed", "response": OPENAI}), 21),
        (streamed(BEGINNING, {"type": "ping"}, END), 42),
        (streamed(BEGINNING), None),
        (streamed({"choices": []}), None),
        (streamed({"type": "response.created", "response": {"usage": None}}), None),
        (json.dumps({"usage": {"total_tokens": -1}}), None),
        (json.dumps({"usage": {"total_tokens": True}}), None),
        (json.dumps({"usage": {"input_tokens": 3}}), None),
        (json.dumps({"error": {"message": "overloaded"}}), None),
        (json.dumps([OPENAI]), None),
        ("{not json", None),
        ("", None),
        ("data: 5\n\ndata: {", None),
        ('{"a":' * 100_000, None),
        ("data: " + "[" * 100_000 + "\n\n" + streamed(OPENAI), 21),
        ("\ufeff" + json.dumps(OPENAI), 21),
        ("\ufeff" + streamed(OPENAI), 21),
        (json.dumps({"usage": {**ANTHROPIC["usage"], "total_tokens": None}}), 42),
        (json.dumps({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}), 7),
        (json.dumps({"usage": {"total_tokens": "21"}}), None),
        (json.dumps({"usage": None}), None),
        (json.dumps({"usage": "21", "message": "hello", "response": [1]}), None),
        ('{"usage":{"total_tokens":1e400}}', None),
        ('{"usage":{"total_tokens":' + "9" * 5000 + "}}", None),
    ],
    ids=range(27),
)
def test_tokens_are_those_of_the_last_usage_and_none_where_there_is_no_whole_one(body, tokens):
    received = Received(200, {}, body.encode())
    assert total_tokens(received) == tokens
    assert received.text == body
