"""The asynchronous client of a worker."""

from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self, Unpack

from plimsoll_grpc import v1
from plimsoll_grpc.aio.client import Block, Client, Replies
from plimsoll_grpc.events import Event, Finished, Started, Text, events_of
from plimsoll_grpc.requests import (
    GenerateOptions,
    Prompt,
    SessionReplyOptions,
    continuation,
    option_fields,
    prompt_field,
)


class Stream(Block):
    """A reply as it comes: its events, to be iterated over once.

    Leaving a `with` block, and cancel(), free the reply's slot on the worker.

    Attributes:
      prompt: how the worker understood the request, once it has begun.
      finish: how the reply ended. Until it is set, the reply is not complete.

    Errors: a PlimsollError in place of the next event.
    """

    def __init__(
        self, parts: Replies[v1.StreamGenerateResponse] | Replies[v1.ChatResponse]
    ) -> None:
        self._parts = parts
        self._events: deque[Event] = deque()
        self.prompt: v1.PromptInfo | None = None
        self.finish: v1.FinishInfo | None = None

    def cancel(self) -> None:
        """Ends the reply. The iteration then ends without an error."""
        self._events.clear()
        self._parts.cancel()

    async def text(self) -> str:
        """Waits for the end and returns the text that comes until then."""
        texts = []
        async for event in self:
            if isinstance(event, Text):
                texts.append(event.text)
        return "".join(texts)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            self._events.extend(events_of(await self._parts.__anext__()))
        event = self._events.popleft()
        if isinstance(event, Started):
            self.prompt = event.prompt
        elif isinstance(event, Finished):
            self.finish = event.finish
        return event

    async def _leave(self) -> None:
        self.cancel()


class Session(Block):
    """A chat that the worker remembers. Leaving a `with` block closes it.

    A session has one call at a time.
    """

    def __init__(self, worker: "Worker", session_id: str, model: str) -> None:
        self._worker = worker
        self.id = session_id
        self.model = model

    def say(
        self,
        message: str,
        *,
        timeout: float | None = None,
        **options: Unpack[SessionReplyOptions],
    ) -> Stream:
        """Says something and returns the reply. It is never repeated: what was
        said stays part of the chat, even if the call fails or is cancelled."""
        return self._say(timeout, message=message, **option_fields(options))

    def respond(
        self,
        responses: Sequence[v1.ToolResponse],
        *,
        timeout: float | None = None,
        **options: Unpack[SessionReplyOptions],
    ) -> Stream:
        """Says what the tools responded to the calls of the last reply, in
        order, and returns the next one. It is never repeated."""
        fields = option_fields(options)
        return self._say(timeout, tool_responses=responses, **fields)

    def _say(self, timeout: float | None, **fields: Any) -> Stream:
        request = v1.ChatRequest(model=self.model, session_id=self.id, **fields)
        return self._worker.chat(request, timeout=timeout)

    async def info(self, *, timeout: float | None = None) -> v1.Session:
        """What the session's context holds now."""
        request = v1.GetSessionRequest(model=self.model, session_id=self.id)
        return await self._worker.get_session(request, timeout=timeout)

    async def close(self, *, timeout: float | None = None) -> None:
        """Makes the worker forget the chat."""
        request = v1.CloseSessionRequest(model=self.model, session_id=self.id)
        await self._worker.close_session(request, timeout=timeout)

    async def _leave(self) -> None:
        await self.close()


def _request_id(request_id: str) -> Sequence[tuple[str, str]]:
    return [("x-request-id", request_id)] if request_id else []


class Worker(Client):
    """Generates text, and loads the models that do so.

    A `model` is the name of a configured model; it may be left out if there is
    one. A `timeout` is in seconds. Errors: PlimsollError, by its reason.
    """

    # Text.

    async def generate(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        request_id: str = "",
        **options: Unpack[GenerateOptions],
    ) -> v1.GenerateResponse:
        """The whole reply to a prompt. abort() knows it by its `request_id`."""
        request = v1.GenerateRequest(**prompt_field(prompt), **option_fields(options))
        return await self._call(
            "plimsoll.v1.GenerationService/Generate",
            request,
            v1.GenerateResponse,
            timeout,
            _request_id(request_id),
        )

    def stream(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        request_id: str = "",
        **options: Unpack[GenerateOptions],
    ) -> Stream:
        """The reply to a prompt as it comes."""
        request = v1.StreamGenerateRequest(
            **prompt_field(prompt), **option_fields(options)
        )
        return Stream(
            self._replies(
                "plimsoll.v1.GenerationService/StreamGenerate",
                request,
                v1.StreamGenerateResponse,
                timeout,
                _request_id(request_id),
            )
        )

    async def score(
        self,
        prompt: Prompt,
        continuations: Sequence[str | Sequence[int]],
        *,
        model: str = "",
        timeout: float | None = None,
    ) -> v1.ScoreResponse:
        """How likely each continuation of a prompt is."""
        request = v1.ScoreRequest(
            model=model,
            continuations=[continuation(content) for content in continuations],
            **prompt_field(prompt),
        )
        return await self._call(
            "plimsoll.v1.GenerationService/Score", request, v1.ScoreResponse, timeout
        )

    # Sessions.

    async def open_session(
        self,
        *,
        model: str = "",
        session_id: str = "",
        system: str | None = None,
        chat_format: str | None = None,
        roll_method: v1.RollMethod = v1.ROLL_METHOD_UNSPECIFIED,
        evict_to: int | None = None,
        ttl: timedelta | None = None,
        turns: Sequence[v1.SessionTurn] = (),
        tools: Sequence[v1.Tool] = (),
        template_arguments: str = "",
        timeout: float | None = None,
    ) -> Session:
        """Begins a chat that the worker remembers, with what was said before."""
        request = v1.OpenSessionRequest(
            model=model,
            session_id=session_id,
            system=system,
            chat_format=chat_format,
            roll_method=roll_method,
            evict_to=evict_to,
            ttl=ttl,
            turns=turns,
            tools=tools,
            template_arguments=template_arguments,
        )
        reply = await self._call(
            "plimsoll.v1.SessionService/OpenSession",
            request,
            v1.OpenSessionResponse,
            timeout,
        )
        return Session(self, reply.session.session_id, model)

    def session(self, session_id: str, *, model: str = "") -> Session:
        """A chat that was opened before. No call is made."""
        return Session(self, session_id, model)

    async def list_sessions(
        self, model: str = "", *, timeout: float | None = None
    ) -> Sequence[v1.Session]:
        """The tenant's sessions, the oldest first."""
        reply = await self._call(
            "plimsoll.v1.SessionService/ListSessions",
            v1.ListSessionsRequest(model=model),
            v1.ListSessionsResponse,
            timeout,
        )
        return reply.sessions

    def chat(
        self, request: v1.ChatRequest, *, timeout: float | None = None
    ) -> Stream:
        """The reply to a message in a session; Session.say() is shorter."""
        return Stream(
            self._replies(
                "plimsoll.v1.SessionService/Chat", request, v1.ChatResponse, timeout
            )
        )

    async def get_session(
        self, request: v1.GetSessionRequest, *, timeout: float | None = None
    ) -> v1.Session:
        """One session; Session.info() is shorter."""
        reply = await self._call(
            "plimsoll.v1.SessionService/GetSession",
            request,
            v1.GetSessionResponse,
            timeout,
        )
        return reply.session

    async def close_session(
        self, request: v1.CloseSessionRequest, *, timeout: float | None = None
    ) -> None:
        """Forgets a session; Session.close() is shorter."""
        await self._call(
            "plimsoll.v1.SessionService/CloseSession",
            request,
            v1.CloseSessionResponse,
            timeout,
        )

    # Tokens.

    async def tokenize(
        self,
        text: str | bytes,
        *,
        model: str = "",
        add_bos: bool = False,
        parse_special: bool = False,
        timeout: float | None = None,
    ) -> Sequence[int]:
        """The token ids of a text."""
        request = v1.TokenizeRequest(
            model=model,
            text=text if isinstance(text, str) else None,
            raw_text=text if isinstance(text, bytes) else None,
            add_bos=add_bos,
            parse_special=parse_special,
        )
        reply = await self._call(
            "plimsoll.v1.TokenizerService/Tokenize",
            request,
            v1.TokenizeResponse,
            timeout,
        )
        return reply.ids

    async def detokenize(
        self,
        ids: Sequence[int],
        *,
        model: str = "",
        render_special: bool = False,
        timeout: float | None = None,
    ) -> str:
        """The text of token ids."""
        request = v1.DetokenizeRequest(
            model=model, ids=ids, render_special=render_special
        )
        reply = await self._call(
            "plimsoll.v1.TokenizerService/Detokenize",
            request,
            v1.DetokenizeResponse,
            timeout,
        )
        return reply.text

    async def count_tokens(
        self, prompt: Prompt, *, model: str = "", timeout: float | None = None
    ) -> v1.CountTokensResponse:
        """How many tokens a text or a conversation has, and how many fit."""
        request = v1.CountTokensRequest(model=model, **prompt_field(prompt))
        return await self._call(
            "plimsoll.v1.TokenizerService/CountTokens",
            request,
            v1.CountTokensResponse,
            timeout,
        )

    async def apply_chat_template(
        self,
        chat: Sequence[v1.ChatMessage] | v1.ChatPrompt,
        *,
        model: str = "",
        timeout: float | None = None,
    ) -> v1.ApplyChatTemplateResponse:
        """A conversation as the model would see it."""
        request = v1.ApplyChatTemplateRequest(model=model, **prompt_field(chat))
        return await self._call(
            "plimsoll.v1.TokenizerService/ApplyChatTemplate",
            request,
            v1.ApplyChatTemplateResponse,
            timeout,
        )

    # Models.

    async def list_models(
        self, *, timeout: float | None = None
    ) -> Sequence[v1.Model]:
        """The configured models, sorted by name."""
        reply = await self._call(
            "plimsoll.v1.ModelService/ListModels",
            v1.ListModelsRequest(),
            v1.ListModelsResponse,
            timeout,
        )
        return reply.models

    def load_model(
        self,
        model: str = "",
        options: v1.LoadOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> Replies[v1.LoadModelResponse]:
        """Loads a model and reports progress; the last message has `model`. To
        leave the iteration, or cancel it, does not end the load."""
        return self._replies(
            "plimsoll.v1.ModelService/LoadModel",
            v1.LoadModelRequest(model=model, options=options),
            v1.LoadModelResponse,
            timeout,
        )

    async def unload_model(
        self, model: str = "", *, timeout: float | None = None
    ) -> None:
        """Unloads a model. It is no error if it is not loaded."""
        await self._call(
            "plimsoll.v1.ModelService/UnloadModel",
            v1.UnloadModelRequest(model=model),
            v1.UnloadModelResponse,
            timeout,
        )

    async def get_memory(
        self, model: str = "", *, timeout: float | None = None
    ) -> v1.GetMemoryResponse:
        """The plan of a loaded model, and what was measured."""
        return await self._call(
            "plimsoll.v1.ModelService/GetMemory",
            v1.GetMemoryRequest(model=model),
            v1.GetMemoryResponse,
            timeout,
        )

    # For whoever runs the worker.

    async def get_load(self, *, timeout: float | None = None) -> v1.GetLoadResponse:
        """What the loaded models do now."""
        return await self._call(
            "plimsoll.v1.AdminService/GetLoad",
            v1.GetLoadRequest(),
            v1.GetLoadResponse,
            timeout,
        )

    async def drain(
        self, *, wait: bool = False, timeout: float | None = None
    ) -> v1.DrainResponse:
        """Makes the worker accept no new calls, for good."""
        return await self._call(
            "plimsoll.v1.AdminService/Drain",
            v1.DrainRequest(wait=wait),
            v1.DrainResponse,
            timeout,
        )

    async def abort(
        self,
        request_ids: Sequence[str] = (),
        *,
        all_requests: bool = False,
        reason: str = "",
        timeout: float | None = None,
    ) -> v1.AbortResponse:
        """Ends requests for text, by their ids or all."""
        request = v1.AbortRequest(
            request_ids=request_ids, all=all_requests, reason=reason
        )
        return await self._call(
            "plimsoll.v1.AdminService/Abort", request, v1.AbortResponse, timeout
        )
