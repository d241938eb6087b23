"""Requests that belong to a trace, and workers that have spans."""

import os

import stubs
from conftest import model_flag
from servers import CALL_SECONDS, Worker

MODEL = "smollm2"
SECRET = "Zanzibar"  # a word of a prompt; no span may have it
N_TOKENS = 4


def new_parent(is_sampled=True):
    """A new trace, the id of its caller's span, and the two in metadata."""
    trace, span = os.urandom(16).hex(), os.urandom(8).hex()
    header = f"00-{trace}-{span}-{'01' if is_sampled else '00'}"
    return trace, span, [("traceparent", header), ("tracestate", "vendor=x,a=1")]


def new_worker(collector, *flags):
    flags += (model_flag(MODEL), "--n-ctx=256", "--slots=2", "--threads=1")
    return Worker(f"--otlp-endpoint={collector.url}", *flags)


def request_of(model=MODEL):
    request = stubs.generation.StreamGenerateRequest(model=model)
    request.text.text = f"The way to {SECRET}"
    request.sampling.temperature = 0
    request.stopping.max_tokens = N_TOKENS
    request.stopping.ignore_eos = True
    return request


def generate(worker, metadata, model=MODEL):
    """Streams a reply to its end."""
    stream = worker.generation.StreamGenerate(
        request_of(model), metadata=metadata, timeout=CALL_SECONDS
    )
    return list(stream)
