"""Contexts that have rolled wait in planned memory while others use their slots."""

from concurrent.futures import ThreadPoolExecutor

import grpc

from asks import GREEDY, generate, text
from conftest import model_flag
from servers import CALL_SECONDS, Worker, refused
from stubs import admin, generation as gen, model as models

FLAGS = ("--n-ctx=256", "--slots=1")


def region(server):
    """The plan's region of parked contexts, and what it should be a copy of."""
    request = models.GetMemoryRequest()
    plan = server.models.GetMemory(request, timeout=CALL_SECONDS).plan
    regions = {one.name: one for one in plan.regions}
    return regions.get("kv_parked"), regions["kv_full"], regions["kv_window"]


def tell(server, tenant, n_tokens):
    """The ids of a reply whose context rolls by shifting."""
    request = generate(
        text=text("Once upon a time there was"),
        sampling=GREEDY,
        max_tokens=n_tokens,
        ignore_eos=True,
        context_policy=gen.CONTEXT_POLICY_ROLL,
        roll=gen.RollOptions(method=gen.ROLL_METHOD_SHIFT),
    )
    reply = server.generation.Generate(
        request, timeout=CALL_SECONDS, metadata=[("x-tenant", tenant)]
    )
    return [token.id for token in reply.tokens]


def preemptions(server):
    load = server.admin.GetLoad(admin.GetLoadRequest(), timeout=CALL_SECONDS)
    return load.models[0].preemptions


def test_a_rolled_stream_that_gave_its_slot_up_says_the_same(any_model_at_night):
    with Worker(model_flag(any_model_at_night), *FLAGS) as server:
        server.await_ready()
        parked, full, window = region(server)
        assert parked.bytes == full.bytes + window.bytes
        alone = tell(server, "a", 800)
        with ThreadPoolExecutor(2) as pool:
            both = list(pool.map(lambda t: tell(server, t, 800), ["a", "b"]))
        assert both == [alone, alone]
        assert preemptions(server) > 0


def test_room_for_parked_contexts_is_an_option(smollm2):
    flags = (*FLAGS, "--parked-slots=0", "--lazy")
    with Worker(f"--model=m={smollm2}", *flags) as server:
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
            server.load(n_parked=4097)
        assert "n_parked" in failures[0].message
        server.load()
        assert region(server)[0] is None
        server.models.UnloadModel(models.UnloadModelRequest(), timeout=CALL_SECONDS)
        server.load(n_parked=3)
        parked, full, window = region(server)
        assert parked.bytes == 3 * (full.bytes + window.bytes)
