"""LangChain's standard tests of chat models; test_langchain.py runs them.

PLIMSOLL_URL is the server, and PLIMSOLL_MODEL a model of it that has tools.
"""

import os

from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class Chat(ChatModelIntegrationTests):
    """Replies are greedy and short: a small model seldom ends by itself."""

    __test__ = True

    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        # Texts within JSON would go round in circles.
        is_structured = "structured" in os.environ.get("PYTEST_CURRENT_TEST", "")
        return {
            "model": os.environ["PLIMSOLL_MODEL"],
            "base_url": f"{os.environ['PLIMSOLL_URL']}/v1",
            "api_key": "none",
            "temperature": 0,
            "max_tokens": 100,
            "extra_body": {"frequency_penalty": 1 if is_structured else 0},
            "max_retries": 0,
            "timeout": 60,
            "stream_usage": True,
            # The small model would go on calling.
            "model_kwargs": {"parallel_tool_calls": False},
        }

    @property
    def model_override_value(self):
        return os.environ["PLIMSOLL_MODEL"]

    @property
    def supports_json_mode(self):
        return True


class Responses(Chat):
    """The suite by OpenAI's responses."""

    @property
    def chat_model_params(self):
        return super().chat_model_params | {"use_responses_api": True}
