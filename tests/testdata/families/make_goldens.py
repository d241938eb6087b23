#!/usr/bin/env python3
"""What two other engines say with the models of golden_families.py.

usage: make_goldens.py [CASE ...]

Writes CASE.json beside itself: greedy ids and log-probabilities of
`transformers` (float32, eager attention, no cache), in the form of the shared
goldens. Where llama.cpp (package `xllamacpp`) can run the case, its greedy ids
must be the same, and the largest difference is noted. Needs torch,
transformers and xllamacpp.
"""

import hashlib
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

import golden_families

shared = golden_families.shared
HERE = pathlib.Path(__file__).resolve().parent
LENGTHS = (1, 9, 45, 100)  # windows are 16
STEPS = 20
TOP = 10
LEAST_MARGIN = 0.06  # in logits, between the first and the second token
NOISE = 1e-4  # on all weights; routing must not depend on it
MOST_MOVED = 0.02  # log-probabilities that noise moves
# llama.cpp always has chunks of 8192 tokens.
WITHOUT_LLAMA_CPP = {"llama4-chunks"}

CLASSES = {
    "llama4": ("Llama4TextConfig", "Llama4ForCausalLM"),
    "granitemoe": ("GraniteMoeSharedConfig", "GraniteMoeSharedForCausalLM"),
    "cohere2": ("Cohere2Config", "Cohere2ForCausalLM"),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM"),
    "seed_oss": ("SeedOssConfig", "SeedOssForCausalLM"),
    "ernie4_5": ("Ernie4_5Config", "Ernie4_5ForCausalLM"),
    "ernie4_5-moe": ("Ernie4_5_MoeConfig", "Ernie4_5_MoeForCausalLM"),
}
# Names of a layer's tensors, in a file and in transformers. The names of norms
# and of FFNs depend on the architecture.
ATTENTION = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "attn_q_norm": "self_attn.q_norm",
             "attn_k_norm": "self_attn.k_norm",
             "attn_norm": "input_layernorm",
             "ffn_norm": "post_attention_layernorm",
             "post_attention_norm": "post_attention_layernorm",
             "post_ffw_norm": "post_feedforward_layernorm"}
FFN = {"llama4": "feed_forward", "granitemoe": "block_sparse_moe"}
ROUTER = {"llama4": "router", "granitemoe": "router"}
SHARED_EXPERT = {"llama4": "feed_forward.shared_expert",
                 "ernie4_5-moe": "mlp.shared_experts"}


def config_of(p):
    """The model's numbers, as transformers calls them."""
    numbers = dict(
        vocab_size=p["vocab"], hidden_size=p["dim"],
        intermediate_size=p["ff"], num_hidden_layers=p["layers"],
        num_attention_heads=p["heads"], num_key_value_heads=p["kv_heads"],
        head_dim=p["head_dim"], rms_norm_eps=p["eps"],
        layer_norm_eps=p["eps"], max_position_embeddings=p["context"],
        tie_word_embeddings=p["tied"], attn_implementation="eager",
        rope_parameters={"rope_type": "default",
                         "rope_theta": p["rope_base"]})
    arch = p["arch"]
    if arch == "llama4":
        numbers.update(
            intermediate_size=p["expert_ff"], intermediate_size_mlp=p["ff"],
            num_local_experts=p["experts"], num_experts_per_tok=p["used"],
            interleave_moe_layer_step=p["moe_step"],
            attention_chunk_size=p["window"],
            floor_scale=p["temperature_length"],
            attn_scale=p["temperature_scale"])
    if arch == "granitemoe":
        numbers.update(
            num_local_experts=p["experts"], num_experts_per_tok=p["used"],
            shared_intermediate_size=p["shared_ff"],
            embedding_multiplier=p["embedding_scale"],
            attention_multiplier=p["attention_scale"],
            residual_multiplier=p["residual_scale"],
            logits_scaling=p["logit_scale"])
    if arch == "cohere2":
        numbers.update(sliding_window=p["window"],
                       logit_scale=p["logit_scale"])
    if arch == "exaone4":
        window = p.get("window")
        kind = "sliding_attention" if window else "full_attention"
        numbers.update(sliding_window=window, layer_types=[
            kind if il % 4 != 3 else "full_attention"
            for il in range(p["layers"])])
    if arch == "ernie4_5-moe":
        numbers.update(
            moe_num_experts=p["experts"], moe_k=p["used"],
            moe_intermediate_size=p["expert_ff"],
            moe_num_shared_experts=p["shared_experts"],
            moe_layer_start_index=p["dense_lead"],
            moe_layer_interval=p["moe_step"])
    return numbers


def halves_of(w, p):
    """Rows of heads whose rotated pairs lie side by side, as halves."""
    heads = w.reshape(-1, p["head_dim"] // 2, 2, w.shape[-1])
    return heads.swapaxes(1, 2).reshape(w.shape)


def layer_weights(p, of_file):
    """One layer's weights as transformers names and shapes them."""
    arch, out = p["arch"], {}
    ffn = FFN.get(arch, "mlp")
    for name, w in of_file.items():
        role, kind = name.rsplit(".", 1)
        if role in ATTENTION:
            if arch == "granitemoe" and role in ("attn_q", "attn_k"):
                w = halves_of(w, p)
            out[f"{ATTENTION[role]}.{kind}"] = w
        elif role in ("ffn_gate", "ffn_up", "ffn_down"):
            out[f"{ffn}.{role[4:]}_proj.weight"] = w
        elif role == "ffn_gate_inp":
            out[f"{ffn}.{ROUTER.get(arch, 'gate')}.weight"] = w
        elif role == "exp_probs_b":
            out[f"{ffn}.gate.moe_statics.e_score_correction_bias"] = w[None]
        elif role.endswith("_shexp") and arch in SHARED_EXPERT:
            part = role[4:].replace("_shexp", "_proj")
            out[f"{SHARED_EXPERT[arch]}.{part}.weight"] = w
    if "ffn_gate_exps.weight" in of_file:
        gate_up = np.concatenate([of_file["ffn_gate_exps.weight"],
                                  of_file["ffn_up_exps.weight"]], 1)
        down = of_file["ffn_down_exps.weight"]
        if arch == "llama4":
            gate_up, down = gate_up.swapaxes(1, 2), down.swapaxes(1, 2)
        out[f"{ffn}.experts.gate_up_proj"] = gate_up
        out[f"{ffn}.experts.down_proj"] = down
    if arch == "granitemoe" and p["shared_ff"]:
        out["shared_mlp.input_linear.weight"] = np.concatenate(
            [of_file["ffn_gate_shexp.weight"], of_file["ffn_up_shexp.weight"]])
        out["shared_mlp.output_linear.weight"] = of_file[
            "ffn_down_shexp.weight"]
    return out


class Oracle:
    """transformers with a model's weights, and noise on them if asked for."""

    def __init__(self, p, weights, noise=0.0):
        config_name, model_name = CLASSES[p["arch"]]
        config = getattr(transformers, config_name)(**config_of(p))
        self.model = getattr(transformers, model_name)(config).float().eval()
        state = {"model.embed_tokens.weight": weights["token_embd.weight"],
                 "model.norm.weight": weights["output_norm.weight"],
                 "lm_head.weight": weights.get("output.weight",
                                               weights["token_embd.weight"])}
        for il in range(p["layers"]):
            prefix = f"blk.{il}."
            of_file = {name[len(prefix):]: w for name, w in weights.items()
                       if name.startswith(prefix)}
            for name, w in layer_weights(p, of_file).items():
                state[f"model.layers.{il}.{name}"] = w
        random = np.random.default_rng(1)
        self.model.load_state_dict(
            {name: torch.tensor(np.ascontiguousarray(
                w * (1 + noise * random.standard_normal(w.shape)),
                np.float32)) for name, w in state.items()})

    def logprobs(self, ids):
        """Log-probabilities of what follows each id, [ids, vocabulary]."""
        with torch.no_grad():
            logits = self.model(torch.tensor([ids]), use_cache=False).logits
        return torch.log_softmax(logits[0].double(), -1).numpy()


def complete(oracle, prompt):
    """The greedy completion, and the least margin of its steps."""
    ids, steps, margin = list(prompt), [], np.inf
    rows = oracle.logprobs(ids)
    said = [float(rows[i, ids[i + 1]]) for i in range(len(ids) - 1)]
    while len(steps) < STEPS:
        row = rows[-1]
        order = np.argsort(-row, kind="stable")
        margin = min(margin, row[order[0]] - row[order[1]])
        steps.append({"id": int(order[0]),
                      "logprob": round(float(row[order[0]]), 5),
                      "top": [[int(i), round(float(row[i]), 5)]
                              for i in order[:TOP]]})
        ids.append(int(order[0]))
        rows = oracle.logprobs(ids)
    return {"prompt": shared.text_of(prompt), "prompt_ids": prompt,
            "prompt_logprobs": [round(x, 5) for x in said],
            "steps": steps}, margin


def is_stable(noisy, completion):
    """True if a little noise moves nothing far: no choice is a near tie."""
    ids = completion["prompt_ids"] + [s["id"] for s in completion["steps"]]
    rows = noisy.logprobs(ids)
    said = completion["prompt_logprobs"] + [
        s["logprob"] for s in completion["steps"]]
    moved = [abs(rows[i, ids[i + 1]] - said[i]) for i in range(len(said))]
    return max(moved) < MOST_MOVED


def choose(oracle, noisy, n, random, vocab):
    """A prompt of n ids, and its completion, that rounding cannot change."""
    letters = [i for i in range(32, 127) if i != ord("<")]
    letters += range(259, vocab)
    while True:
        prompt = [int(i) for i in random.choice(letters, n)]
        completion, margin = complete(oracle, prompt)
        ends = {256, 257, 258} & {s["id"] for s in completion["steps"]}
        if margin >= LEAST_MARGIN and not ends and is_stable(
                noisy, completion):
            return completion, margin


class LlamaCpp:
    """llama.cpp with a file, float32 throughout."""

    def __init__(self, path, n_ctx):
        import xllamacpp
        params = xllamacpp.CommonParams()
        params.model.path = path
        params.n_ctx = n_ctx
        params.n_parallel = 1
        params.cpuparams.n_threads = 1
        params.cpuparams_batch.n_threads = 1
        params.warmup = False
        params.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_F32
        params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = (
            xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED)
        self.server = xllamacpp.Server(params)
        self.n_compared = 0

    def difference(self, completion):
        """How far its log-probabilities are; it must say the same ids.

        It is asked for one token at a time. It gives none that is not a whole
        character: such steps are counted as not compared.
        """
        ids, worst = list(completion["prompt_ids"]), 0.0
        for step in completion["steps"]:
            said = self.server.handle_completions(
                {"prompt": ids, "n_predict": 1, "n_probs": TOP,
                 "temperature": 0.0, "samplers": ["top_k"], "top_k": 1,
                 "cache_prompt": False, "ignore_eos": True})
            ids.append(step["id"])
            if said["choices"][0]["logprobs"] is None:
                continue
            self.n_compared += 1
            top = said["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            theirs = {t["id"]: t["logprob"] for t in top}
            assert max(theirs, key=theirs.get) == step["id"], (step, theirs)
            worst = max([worst] + [abs(logprob - theirs[i])
                                   for i, logprob in step["top"]
                                   if i in theirs])
        return worst


def make(case):
    p = dict(golden_families.CASES[case])
    model = shared.build(p)
    weights = model.weights()
    oracle, noisy = Oracle(p, weights), Oracle(p, weights, NOISE)
    random = np.random.default_rng(7)
    chosen = [choose(oracle, noisy, n, random, p["vocab"]) for n in LENGTHS]
    golden = {
        "case": case, "params": p, "n_ctx": p["context"],
        "oracles": [f"transformers {transformers.__version__}, float32"],
        "min_margin": round(float(min(m for _, m in chosen)), 4),
        "completions": [c for c, _ in chosen]}
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        shared.write(model, file.name)
        golden["sha256"] = hashlib.sha256(
            pathlib.Path(file.name).read_bytes()).hexdigest()
        if case not in WITHOUT_LLAMA_CPP:
            engine = LlamaCpp(file.name, p["context"])
            worst = max(map(engine.difference, golden["completions"]))
            golden["oracles"].append("llama.cpp of xllamacpp, float32")
            golden["agreement"] = {
                "same greedy ids": f"{engine.n_compared} compared of "
                                   f"{len(LENGTHS) * STEPS}",
                "largest difference": round(worst, 6)}
    (HERE / f"{case}.json").write_text(
        json.dumps(golden, separators=(",", ":")) + "\n")
    print(case, golden["oracles"], golden["min_margin"],
          golden.get("agreement"), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or golden_families.CASES:
        make(name)
