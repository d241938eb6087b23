"""LangChain's client and its standard tests against `plimsoll serve`."""

import os
import pathlib

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from dialects import ratchet
from dialects.tool_template import TEMPLATE
from gguf_header import with_changed_vocabulary
from servers import CALL_SECONDS, Front, nightly

HERE = pathlib.Path(__file__).resolve().parent
SUITE_SECONDS = 900


@pytest.fixture(scope="module")
def front(smollm2, tmp_path_factory):
    """SmolLM2 with a template that has tools."""
    path = tmp_path_factory.mktemp("langchain") / "tools.gguf"
    with_changed_vocabulary(smollm2, path, {}, TEMPLATE)
    with Front(str(path), "--n-ctx=2048", "--slots=4") as server:
        yield server
    path.unlink()


@pytest.fixture(params=["chats", "responses"])
def model(front, request):
    """By either of OpenAI's two paths."""
    return ChatOpenAI(
        model="tools", base_url=f"{front.url}/v1", api_key="none", temperature=0,
        max_tokens=100, max_retries=0, timeout=CALL_SECONDS,
        use_responses_api=request.param == "responses",
        model_kwargs={"parallel_tool_calls": False},
    )


def test_an_agent_calls_its_tools_until_it_answers(model):
    asked = []

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return f"It is sunny in {city}."

    @tool
    def light(on: bool) -> str:
        """Turns the light on or off."""
        asked.append(on)
        return "Done."

    tools = {"weather": weather, "light": light}
    messages = [HumanMessage("Will it be dark in Oslo? Then turn the light on.")]
    # What it calls in each turn is given, as the model is a small one.
    for choice in ("weather", "light", "none"):
        bound = model.bind_tools(list(tools.values()), tool_choice=choice)
        reply = bound.invoke(messages)
        messages.append(reply)
        for call in reply.tool_calls:
            assert call["name"] == choice
            messages.append(tools[choice].invoke(call))
    assert [type(value) for value in asked] == [str, bool]
    answers = [m for m in messages if isinstance(m, ToolMessage)]
    assert [m.content for m in answers] == [f"It is sunny in {asked[0]}.", "Done."]
    assert len(messages) == 6
    assert reply.text and not reply.tool_calls
    assert reply.usage_metadata["input_tokens"] > 100


def test_a_stream_has_the_same_calls(model):
    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return city

    bound = model.bind_tools([weather], tool_choice="weather")
    whole = bound.invoke("How is the weather in Oslo?")
    parts = list(bound.stream("How is the weather in Oslo?"))
    assert len(parts) > 2
    streamed = sum(parts[1:], start=parts[0])
    (call,) = whole.tool_calls
    (streamed_call,) = streamed.tool_calls
    assert streamed_call["args"] == call["args"]
    assert streamed_call["name"] == "weather"


@nightly
def test_the_standard_suite_passes_what_it_passed(front, tmp_path):
    passed, output = ratchet.run_pytest(
        ["-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session",
         "-o", "asyncio_default_fixture_loop_scope=session",
         str(HERE / "langchain_suite.py")],
        tmp_path / "report.xml", SUITE_SECONDS,
        env={**os.environ, "PLIMSOLL_URL": front.url, "PLIMSOLL_MODEL": "tools"},
    )
    ratchet.check(passed, HERE / "langchain.txt", output)
