#!/usr/bin/env python3
"""Writes the tiny models of all golden families.

usage: as the shared script ../shared/tools/family_models.py, beside this
checkout, whose families, numbers and file format these are. This script adds
the families of which make_goldens.py makes the goldens in this folder.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT.parent / "shared" / "tools"))

import family_models as shared  # noqa: E402

from family_models import BOOL, F32, U32  # noqa: E402


def scales(m):
    for key in ("attention_scale", "embedding_scale", "residual_scale",
                "logit_scale"):
        m.a(key.replace("attention_", "attention."), F32, m.p[key])


def windows(m):
    p = m.p
    if p.get("window"):
        m.a("attention.sliding_window", U32, p["window"])
        m.a("attention.sliding_window_pattern", BOOL,
            [il % 4 != 3 for il in range(p["layers"])])


def llama4(m):
    """The shared one, which has no chunk that a test could reach."""
    p = m.p
    if "window" in p:
        m.a("attention.sliding_window", U32, p["window"])
        m.a("attention.temperature_length", U32, p["temperature_length"])
        m.a("attention.temperature_scale", F32, p["temperature_scale"])
    SHARED_LLAMA4(m)


def granitemoe(m):
    """Experts of the width feed_forward_length, perhaps a shared one too."""
    p = m.p
    shared.common(m, head_dim_keys=False, rope_dim=p["head_dim"])
    scales(m)
    shared.moe_keys(m)
    if p["shared_ff"]:
        m.a("expert_shared_feed_forward_length", U32, p["shared_ff"])
    shared.ends(m)
    for il in range(p["layers"]):
        b = f"blk.{il}."
        m.norm(b + "attn_norm.weight", p["dim"])
        shared.attention(m, b)
        m.norm(b + "ffn_norm.weight", p["dim"])
        shared.experts(m, b, p["ff"])
        if p["shared_ff"]:
            shared.ffn(m, b, p["shared_ff"], suffix="_shexp")


def cohere2(m):
    """One norm a layer. Embeddings have a mean, which norms take away."""
    p = m.p
    shared.common(m, rope_dim=p["head_dim"])
    m.keys = [key for key in m.keys if "rms_epsilon" not in key[0]]
    m.a("attention.layer_norm_epsilon", F32, p["eps"])
    m.a("attention.sliding_window", U32, p["window"])
    m.a("logit_scale", F32, p["logit_scale"])
    m.t("token_embd.weight", p["dim"], p["vocab"], mean=0.3, std=0.5)
    m.norm("output_norm.weight", p["dim"], mean=p["head_norm"])
    for il in range(p["layers"]):
        b = f"blk.{il}."
        m.norm(b + "attn_norm.weight", p["dim"])
        shared.attention(m, b)
        shared.ffn(m, b)


def exaone4(m):
    p = m.p
    shared.common(m, rope_dim=p["head_dim"])
    windows(m)
    shared.ends(m)
    for il in range(p["layers"]):
        b = f"blk.{il}."
        shared.attention(m, b, norms=1.3)
        m.norm(b + "post_attention_norm.weight", p["dim"])
        shared.ffn(m, b)
        m.norm(b + "post_ffw_norm.weight", p["dim"])


def seed_oss(m):
    """post_attention_norm is the norm before the FFN."""
    p = m.p
    shared.common(m, rope_dim=p["head_dim"])
    shared.ends(m)
    for il in range(p["layers"]):
        b = f"blk.{il}."
        m.norm(b + "attn_norm.weight", p["dim"])
        shared.attention(m, b, bias=True)
        m.norm(b + "post_attention_norm.weight", p["dim"])
        shared.ffn(m, b)


def ernie(m):
    """Dense, or as arch ernie4_5-moe with experts after dense layers."""
    p = m.p
    shared.common(m, rope_dim=p["head_dim"])
    n_shared = p.get("shared_experts", 0)
    if p.get("experts"):
        shared.moe_keys(m)
        m.a("expert_feed_forward_length", U32, p["expert_ff"])
        m.a("expert_shared_count", U32, n_shared)
        m.a("expert_shared_feed_forward_length", U32,
            n_shared * p["expert_ff"])
        m.a("leading_dense_block_count", U32, p["dense_lead"])
        m.a("interleave_moe_layer_step", U32, p["moe_step"])
    shared.ends(m)
    for il in range(p["layers"]):
        b = f"blk.{il}."
        m.norm(b + "attn_norm.weight", p["dim"])
        shared.attention(m, b)
        m.norm(b + "ffn_norm.weight", p["dim"])
        if (not p.get("experts") or il < p["dense_lead"] or
                (il + 1) % p["moe_step"]):
            shared.ffn(m, b)
            continue
        shared.experts(m, b, p["expert_ff"])
        m.bias(b + "exp_probs_b.bias", p["experts"], std=0.1)
        shared.ffn(m, b, n_shared * p["expert_ff"], suffix="_shexp")


SHARED_LLAMA4 = shared.FAMILIES["llama4"]
shared.FAMILIES.update({
    "llama4": llama4, "granitemoe": granitemoe, "cohere2": cohere2,
    "exaone4": exaone4, "seed_oss": seed_oss, "ernie4_5": ernie,
    "ernie4_5-moe": ernie})

base = shared.base
GRANITE = dict(dim=128, ff=64, tied=True, embd_std=0.2, head_norm=3.0,
               attention_scale=0.1, embedding_scale=3.0, residual_scale=0.6,
               logit_scale=1.6, experts=6, used=2)
# The cases of which this folder has goldens.
CASES = {
    "llama4-chunks": base("llama4", layers=5, ff=128, rope_base=5e5,
                          experts=4, used=2, expert_ff=64, moe_step=2,
                          window=16, temperature_length=24,
                          temperature_scale=0.4),
    "granitemoe": base("granitemoe", shared_ff=0, **GRANITE),
    "granitemoe-shared": base("granitemoe", shared_ff=96, **GRANITE),
    "cohere2": base("cohere2", dim=128, layers=5, rope_base=5e4, window=16,
                    tied=True, head_norm=1.5, logit_scale=0.4),
    "exaone4": base("exaone4", dim=128, rope_base=1e6),
    # llama.cpp takes a model of 64 layers for the 32B, which has windows.
    "exaone4-windows": base("exaone4", layers=64, heads=2, kv_heads=1, ff=64,
                            rope_base=1e6, window=16),
    "seed_oss": base("seed_oss", rope_base=1e6),
    "ernie4_5": base("ernie4_5", rope_base=5e5, tied=True),
    "ernie4_5-moe": base("ernie4_5-moe", rope_base=5e5, tied=True,
                         experts=6, used=2, expert_ff=32, shared_experts=2,
                         dense_lead=1, moe_step=1),
}
shared.CASES.update(CASES)

if __name__ == "__main__":
    shared.main(sys.argv[1:])
