"""LiteLLM's client, which speaks all three dialects, against `plimsoll serve`."""

import json
import os

import pytest

# It would fetch a table of prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm  # noqa: E402

from dialects.tool_template import TEMPLATE  # noqa: E402
from gguf_header import with_changed_vocabulary  # noqa: E402
from servers import CALL_SECONDS, Front  # noqa: E402

QUESTION = [{"role": "user", "content": "Name three colours."}]
LIGHT = {
    "type": "function",
    "function": {
        "name": "light",
        "description": "Turns a light on or off",
        "parameters": {
            "type": "object",
            "properties": {"room": {"enum": ["hall", "attic"]}},
            "required": ["room"],
        },
    },
}
# The names by which it knows the dialects, and the address that each takes.
DIALECTS = {"openai": "/v1", "hosted_vllm": "/v1", "anthropic": "", "ollama_chat": ""}


# It warns of its own types.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def front(smollm2, tmp_path_factory):
    path = tmp_path_factory.mktemp("litellm") / "tools.gguf"
    with_changed_vocabulary(smollm2, path, {}, TEMPLATE)
    with Front(str(path), "--n-ctx=1024", "--slots=4") as server:
        yield server
    path.unlink()


@pytest.fixture(scope="module", params=DIALECTS)
def ask(front, request):
    """Asks in one dialect after the other."""

    def completion(messages=QUESTION, **options):
        options = {"temperature": 0, "max_tokens": 8, **options}
        return litellm.completion(
            model=f"{request.param}/tools", messages=messages,
            api_base=front.url + DIALECTS[request.param], api_key="none",
            timeout=CALL_SECONDS, num_retries=0, **options,
        )

    return completion


def test_a_reply_has_text_and_usage(ask):
    reply = ask()
    (choice,) = reply.choices
    assert choice.message.content
    assert choice.finish_reason == "length"
    assert reply.usage.completion_tokens == 8
    assert reply.usage.prompt_tokens > 4


def test_a_stream_has_the_same_text(ask):
    whole = ask().choices[0].message.content
    parts = list(ask(stream=True))
    texts = [part.choices[0].delta.content or "" for part in parts]
    assert len(parts) > 2
    assert "".join(texts) == whole
    assert parts[-1].choices[0].finish_reason == "length"


def test_a_stop_text_ends_a_reply(ask):
    whole = ask().choices[0].message.content
    word = whole.split()[1]
    reply = ask(stop=[word])
    assert reply.choices[0].message.content == whole.split(word)[0]
    assert reply.choices[0].finish_reason == "stop"


def test_a_schema_holds_the_reply(ask):
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    reply = ask(response_format=form, max_tokens=64)
    assert json.loads(reply.choices[0].message.content)["colour"] in ("red", "green")


def test_an_error_is_the_clients_own(ask):
    with pytest.raises(litellm.BadRequestError):
        ask(messages=[{"role": "user", "content": "word " * 2000}])


@pytest.mark.parametrize("dialect", ["openai", "hosted_vllm", "anthropic"])
def test_a_call_is_made_and_its_response_is_read(front, dialect):
    options = {
        "model": f"{dialect}/tools", "api_base": front.url + DIALECTS[dialect],
        "api_key": "none", "timeout": CALL_SECONDS, "tools": [LIGHT],
        "temperature": 0, "max_tokens": 60, "num_retries": 0,
    }
    messages = [{"role": "user", "content": "Light in the hall, please."}]
    first = litellm.completion(
        messages=messages, tool_choice="required", parallel_tool_calls=False, **options
    ).choices[0]
    assert first.finish_reason == "tool_calls"
    (call,) = first.message.tool_calls
    assert call.function.name == "light"
    assert json.loads(call.function.arguments)["room"] in ("hall", "attic")
    messages += [
        first.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "It is on."},
    ]
    last = litellm.completion(messages=messages, tool_choice="none", **options)
    assert last.choices[0].message.content
    assert not last.choices[0].message.tool_calls


def test_texts_and_responses_have_their_paths(front):
    options = {"api_base": f"{front.url}/v1", "api_key": "none", "temperature": 0,
               "timeout": CALL_SECONDS}
    text = litellm.text_completion(
        model="text-completion-openai/tools", prompt="The sky is", max_tokens=8,
        **options,
    )
    assert text.choices[0].text and text.usage.completion_tokens == 8
    # It asks for 16 tokens at least.
    response = litellm.responses(
        model="openai/tools", input="Tell me a long story.", max_output_tokens=16,
        **options,
    )
    assert response.status == "incomplete"
    assert response.usage.output_tokens == 16
    assert response.output[0].content[0].text
