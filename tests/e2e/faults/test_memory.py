"""F26: work that gets no memory ends with an error, and what runs goes on."""

import json

import grpc

from asks import endless
from conftest import model_flag
from servers import CALL_SECONDS, Front, Worker, refused, until
from stubs import tokenizer as v1
from test_openai import request

MIB = 1 << 20


def text_of(n_bytes):
    """A text that is one allocation; its tokens, of 4 bytes each, are a larger one."""
    return " a" * (n_bytes // 2)


def tokenize(worker):
    ask = v1.TokenizeRequest(model="smollm2", text=text_of(2 * MIB))
    return worker.tokenizer.Tokenize(ask, timeout=CALL_SECONDS)


def test_f26_a_call_without_memory_ends_alone(smollm2, failing_calls):
    flags = ("--n-ctx=4096", "--slots=2", "--n-ubatch=64")
    with failing_calls.preloaded(), Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        stream = worker.generation.StreamGenerate(endless(), timeout=CALL_SECONDS)
        next(stream)
        failing_calls.refuse_large(3 * MIB)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
            tokenize(worker)
        assert "no memory" in failures[0].message
        for _ in range(8):
            assert not next(stream).HasField("finish")
        failing_calls.refuse_large(0)
        assert len(tokenize(worker).ids) >= MIB
        assert not next(stream).HasField("finish")
        stream.cancel()


def test_f26_a_request_over_http_without_memory_ends_alone(smollm2, failing_calls):
    body = json.dumps({"prompt": text_of(MIB)})
    with failing_calls.preloaded(), Front(str(smollm2), "--n-ctx=512") as front:
        failing_calls.refuse_large(MIB * 3 // 2)
        status, answer = request(front, "POST", "/tokenize", body)
        assert status == 413, answer
        assert b"no memory" in answer
        failing_calls.refuse_large(0)
        # The other call's memory counts for a moment more.
        until(lambda: request(front, "POST", "/tokenize", body)[0] == 200)
