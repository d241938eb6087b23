"""Slots that share fewer pages than their contexts have."""

from concurrent.futures import ThreadPoolExecutor

import grpc

from asks import GREEDY, endless, generate, text
from conftest import model_flag
from servers import CALL_SECONDS, Worker, refused
from stubs import admin, generation as gen

PROMPTS = [f"Story number {i}: once upon a time there was" for i in range(4)]


def tell(server, prompt):
    """A long reply's ids."""
    request = generate(
        text=text(prompt), sampling=GREEDY, max_tokens=230, ignore_eos=True
    )
    reply = server.generation.Generate(request, timeout=CALL_SECONDS)
    return [token.id for token in reply.tokens]


def test_who_begins_again_says_the_same():
    flags = (model_flag("smollm2"), "--n-ctx=256")
    with Worker(*flags, "--slots=1") as server:
        server.await_ready()
        alone = [tell(server, prompt) for prompt in PROMPTS]
    with Worker(*flags, "--slots=4", "--kv-tokens=400", "--prefix-cache=0") as server:
        server.await_ready()
        with ThreadPoolExecutor(len(PROMPTS)) as pool:
            together = list(pool.map(lambda p: tell(server, p), PROMPTS))
        load = server.admin.GetLoad(admin.GetLoadRequest(), timeout=CALL_SECONDS)
    assert together == alone
    assert load.models[0].kv_pages == 7
    assert load.models[0].preemptions > 0


def test_without_preemption_who_waits_says_the_same_and_nobody_begins_again():
    flags = ("--n-ctx=256", "--slots=4", "--kv-tokens=400", "--preemption=off")
    with Worker(model_flag("smollm2"), *flags) as server:
        server.await_ready()
        alone = [tell(server, prompt) for prompt in PROMPTS]
        with ThreadPoolExecutor(len(PROMPTS)) as pool:
            together = list(pool.map(lambda p: tell(server, p), PROMPTS))
        load = server.admin.GetLoad(admin.GetLoadRequest(), timeout=CALL_SECONDS)
        # Without a deadline, too.
        rolls = endless(context_policy=gen.CONTEXT_POLICY_ROLL)
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
            list(server.generation.StreamGenerate(rolls))
    assert "set max_tokens or a deadline" in failures[0].message
    assert together == alone
    assert load.models[0].kv_pages == 7
    assert load.models[0].preemptions == 0
