"""llama-cpp-python's engine in a process of its own: takes the figures that
compare.py asks for, through the engine's C interface, and prints them as JSON.
"""
import argparse
import ctypes
import json
import random
import re
import statistics
import time

import llama_cpp
import numpy as np

SHORT_PROMPT = 16  # tokens before a decode, as in `plimsoll bench`
RUNS, LIMIT_SECONDS = 3, 1.0  # its repeats, too


def resident_bytes(field):
    """VmRSS or VmHWM of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(rf"{field}:\s+(\d+) kB", file.read())[1]) * 1024


def median(take):
    begin, found = time.perf_counter(), []
    while len(found) < RUNS:
        found.append(take())
        if time.perf_counter() - begin > LIMIT_SECONDS:
            break
    return statistics.median(found)


class Context:
    """Sequences of a model; rows are (token, position, sequence, is_sampled)."""

    def __init__(self, model, args, n_sequences, n_ctx):
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_sequences * n_ctx
        params.n_batch = params.n_ubatch = args.n_ubatch
        params.n_seq_max = n_sequences
        params.n_threads = params.n_threads_batch = args.threads
        # Its own programs set this and its library does not: a sliding window's
        # layers keep a window, not the whole context.
        params.swa_full = False
        params.flash_attn_type = args.flash_attention
        self.handle = llama_cpp.llama_init_from_model(model, params)
        if not self.handle:
            raise SystemExit("error: no context")
        vocab = llama_cpp.llama_model_get_vocab(model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(vocab)
        self.batch = llama_cpp.llama_batch_init(args.n_ubatch, 0, 1)

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.handle)

    def clear(self):
        llama_cpp.llama_memory_clear(
            llama_cpp.llama_get_memory(self.handle), True)

    def step(self, rows):
        """The likeliest token after each sampled row."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, is_sampled) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = is_sampled
        if llama_cpp.llama_decode(self.handle, batch) != 0:
            raise SystemExit("error: a step failed")
        tokens = []
        for i, row in enumerate(rows):
            if row[3]:
                logits = llama_cpp.llama_get_logits_ith(self.handle, i)
                tokens.append(int(np.argmax(np.ctypeslib.as_array(
                    logits, (self.vocab_size,)))))
        return tokens

    def prefill(self, ids, sequence, n_ubatch):
        """The token after a prompt."""
        for begin in range(0, len(ids), n_ubatch):
            end = min(begin + n_ubatch, len(ids))
            found = self.step([(ids[i], i, sequence, i == len(ids) - 1)
                               for i in range(begin, end)])
        return found[0]


def random_prompt(rng, n, vocab_size):
    return [rng.randrange(1000, vocab_size) for _ in range(n)]


def prefill_rate(context, args, n_tokens):
    rng = random.Random(n_tokens)

    def take():
        ids = random_prompt(rng, n_tokens, context.vocab_size)
        context.clear()
        begin = time.perf_counter()
        context.prefill(ids, 0, args.n_ubatch)
        return n_tokens / (time.perf_counter() - begin)

    return median(take)


def decode_rate(context, args, n_sequences):
    rng = random.Random(n_sequences)

    def take():
        context.clear()
        tokens = [context.prefill(
            random_prompt(rng, SHORT_PROMPT, context.vocab_size), sequence,
            args.n_ubatch) for sequence in range(n_sequences)]
        n_steps = args.decode_tokens - 1  # the first came with the prompt
        begin = time.perf_counter()
        for step in range(n_steps):
            tokens = context.step([(token, SHORT_PROMPT + step, sequence, True)
                                   for sequence, token in enumerate(tokens)])
        return n_sequences * n_steps / (time.perf_counter() - begin)

    return median(take)


def load(args):
    model = llama_cpp.llama_model_load_from_file(
        args.model.encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise SystemExit(f"error: cannot load {args.model}")
    return model


def rates(args):
    """Every rate, and the peak memory with one sequence."""
    before = resident_bytes("VmRSS")
    model = load(args)
    result = {"prefill": {}, "decode": {}}
    context = Context(model, args, 1, args.n_ctx)
    context.prefill(list(range(1000, 1000 + SHORT_PROMPT)), 0, args.n_ubatch)
    for n in args.prompts:
        result["prefill"][n] = prefill_rate(context, args, n)
    if 1 in args.batches:
        result["decode"][1] = decode_rate(context, args, 1)
    # Python, numpy and the engine's code are not counted.
    result["peak_rss"] = resident_bytes("VmHWM") - before
    context.close()
    for n in args.batches:
        if n > 1:
            context = Context(model, args, n, SHORT_PROMPT + args.decode_tokens)
            result["decode"][n] = decode_rate(context, args, n)
            context.close()
    return result


def first_token(args):
    """Seconds from before the model is loaded to the first token of a reply;
    Python and its modules, the engine's library among them, are there."""
    begin = time.perf_counter()
    model = load(args)
    context = Context(model, args, 1, args.n_ctx)
    text = args.first_token.encode()
    ids = (ctypes.c_int32 * (len(text) + 2))()
    n = llama_cpp.llama_tokenize(llama_cpp.llama_model_get_vocab(model), text,
                                 len(text), ids, len(ids), True, True)
    context.prefill(list(ids[:n]), 0, args.n_ubatch)
    return {"first_token": time.perf_counter() - begin}


def counts(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--n-ctx", type=int, required=True)
    parser.add_argument("--n-ubatch", type=int, required=True)
    parser.add_argument("--decode-tokens", type=int, default=32)
    parser.add_argument("--prompts", type=counts, default=[])
    parser.add_argument("--batches", type=counts, default=[])
    parser.add_argument("--flash-attention", type=int, default=-1,
                        help="-1: as the engine chooses; 0: off; 1: on")
    parser.add_argument("--first-token", metavar="PROMPT")
    parser.add_argument("model")
    args = parser.parse_args()
    llama_cpp.llama_backend_init()
    measure = rates if args.first_token is None else first_token
    print(json.dumps(measure(args)))


if __name__ == "__main__":
    main()
