"""Short forms of the requests that tests make."""

from stubs import common, generation as v1

GREEDY = v1.SamplingOptions(temperature=0)


def text(prompt, parse_special=True):
    """A prompt without a chat format."""
    return common.TextPrompt(text=prompt, parse_special=parse_special)


def chat(*contents, **fields):
    """A conversation that the user opens and the model answers."""
    roles = (common.CHAT_ROLE_USER, common.CHAT_ROLE_ASSISTANT)
    messages = [
        common.ChatMessage(role=roles[i % 2], content=content)
        for i, content in enumerate(contents)
    ]
    return common.ChatPrompt(messages=messages, **fields)


def _stopping(fields):
    """The fields of the request, with those of stopping put where they go."""
    names = v1.StoppingOptions.DESCRIPTOR.fields_by_name
    stopping = {name: fields.pop(name) for name in list(fields) if name in names}
    fields.setdefault("stopping", v1.StoppingOptions(**stopping))
    return fields


def generate(model="", **fields):
    """A GenerateRequest; the fields of StoppingOptions may be given at once."""
    return v1.GenerateRequest(model=model, **_stopping(fields))


def stream(model="", **fields):
    """The request as a StreamGenerateRequest."""
    return v1.StreamGenerateRequest(model=model, **_stopping(fields))


def endless(model="", **fields):
    """A stream that ends only when its context is full."""
    fields.setdefault("text", text("Once upon a time"))
    return stream(model, sampling=GREEDY, ignore_eos=True, **fields)
