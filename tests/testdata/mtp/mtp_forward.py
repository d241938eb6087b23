"""A model with a head for the token after the next, in numpy.

The whole sequence is computed at once and again for each guess: there is no
cache, and the state of a recurrent layer is a loop over positions. Matrices of
a file are [outputs, inputs] here, activations [positions, width].
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Rules:
    """What the head is given. Each field has a wrong value for tests of it."""

    normed: bool = True  # the model's rows are taken after output_norm
    chain_normed: bool = True  # the head's own, after its norm
    embedding_first: bool = True  # in the input of eh_proj
    moves: bool = True  # a guess of a chain is at the position after
    sees_past: bool = True  # rows attend to earlier rows
    embedding_felt: bool = True
    hidden_felt: bool = True
    zeros_first: bool = False  # llama.cpp has a row of the first id and zeros


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def rotated(x, positions, n_rotated, base, side_by_side=False):
    """x [positions, heads, width], the first n_rotated of each head turned.

    Pairs are (i, i + half), or (2i, 2i + 1) where they lie side by side.
    """
    half = n_rotated // 2
    angle = np.asarray(positions, np.float64)[:, None] * base ** (
        -np.arange(half) / half)
    cos = np.cos(angle)[:, None].astype(x.dtype)
    sin = np.sin(angle)[:, None].astype(x.dtype)
    first = slice(0, n_rotated, 2) if side_by_side else slice(0, half)
    second = slice(1, n_rotated, 2) if side_by_side else slice(half, n_rotated)
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def attended(q, k, v, sees_past=True):
    """Causal attention: q [positions, heads, width], k and v with fewer heads.

    Returns [positions, heads * width of v].
    """
    n, heads, width = q.shape
    group = heads // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.dtype.type(width))
    seen = np.tri(n, dtype=bool) if sees_past else np.eye(n, dtype=bool)
    scores = np.where(seen, scores, -np.inf)
    return np.einsum("hij,jhd->ihd", softmax(scores), v).reshape(n, -1)


class Network:
    """A model of one of the families here, with the weights of its file."""

    def __init__(self, p, weights, dtype=np.float64):
        self.p = p
        self.w = {name: x.astype(dtype) for name, x in weights.items()}

    def linear(self, name, x):
        """x times a matrix, plus its bias where the file has one."""
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def normed(self, name, x):
        return rms(x, self.w[name + ".weight"], self.p["eps"])

    # ------------------------------------------------------------ attention

    def attention(self, b, x, positions, sees_past):
        """Attention of GLM 4 MoE: a head's first dimensions turn."""
        p, n = self.p, len(x)
        q, k, v = (self.linear(b + "attn_" + name, x).reshape(n, -1, p[
            "head_dim"]) for name in "qkv")
        q = rotated(self.normed(b + "attn_q_norm", q), positions,
                    p["rotated"], p["rope_base"])
        k = rotated(self.normed(b + "attn_k_norm", k), positions,
                    p["rotated"], p["rope_base"])
        return self.linear(b + "attn_output", attended(q, k, v, sees_past))

    def gated_attention(self, b, x, positions, sees_past):
        """Attention of Qwen 3 Next and 3.5: a gate beside each head's query."""
        p, n = self.p, len(x)
        q, gate = np.split(self.linear(b + "attn_q", x).reshape(
            n, p["heads"], 2 * p["head_dim"]), 2, -1)
        k = self.linear(b + "attn_k", x).reshape(n, -1, p["head_dim"])
        v = self.linear(b + "attn_v", x).reshape(n, -1, p["head_dim"])
        q = rotated(self.normed(b + "attn_q_norm", q), positions,
                    p["rotated"], p["rope_base"])
        k = rotated(self.normed(b + "attn_k_norm", k), positions,
                    p["rotated"], p["rope_base"])
        out = attended(q, k, v, sees_past) * sigmoid(gate.reshape(n, -1))
        return self.linear(b + "attn_output", out)

    def latent_attention(self, b, x, positions, sees_past):
        """Attention of DeepSeek 2: keys and values of a small vector."""
        p, n = self.p, len(x)
        nope, rank = p["nope_dim"], p["kv_rank"]

        def turned(y):
            return rotated(y, positions, p["rope_dim"], p["rope_base"],
                           side_by_side=True)

        q = self.linear(b + "attn_q_b", self.normed(
            b + "attn_q_a_norm", self.linear(b + "attn_q_a", x)))
        q = q.reshape(n, p["heads"], -1)
        both = self.linear(b + "attn_kv_a_mqa", x)
        latent = self.normed(b + "attn_kv_a_norm", both[:, :rank])
        k = np.einsum("tr,hrn->thn", latent, self.w[b + "attn_k_b.weight"])
        v = np.einsum("tr,hvr->thv", latent, self.w[b + "attn_v_b.weight"])
        k_turned = turned(both[:, None, rank:]).repeat(p["heads"], 1)
        q = np.concatenate([q[..., :nope], turned(q[..., nope:])], -1)
        k = np.concatenate([k, k_turned], -1)
        return self.linear(b + "attn_output", attended(q, k, v, sees_past))

    # ------------------------------------------------------ recurrent layer

    def convolved(self, b, x):
        """The causal convolution of each channel, then silu."""
        kernel = self.w[b + "ssm_conv1d.weight"]  # [channels, taps]
        taps = kernel.shape[1]
        padded = np.concatenate([np.zeros((taps - 1, x.shape[1]), x.dtype), x])
        return silu(sum(padded[j:j + len(x)] * kernel[:, j]
                        for j in range(taps)))

    def rates(self, b, x):
        """What each value head writes (beta) and forgets (a), unbounded."""
        p = self.p
        if p["arch"] != "qwen3next":
            return (self.linear(b + "ssm_beta", x),
                    self.linear(b + "ssm_alpha", x))
        both = self.linear(b + "ssm_ba", x).reshape(
            len(x), p["key_heads"], 2, -1)
        return (both[:, :, 0].reshape(len(x), -1),
                both[:, :, 1].reshape(len(x), -1))

    def delta_net(self, b, x):
        """The gated delta rule of Qwen 3 Next and 3.5."""
        p, n = self.p, len(x)
        kh, vh, s = p["key_heads"], p["value_heads"], p["state"]
        mixed = self.convolved(b, self.linear(b + "attn_qkv", x))
        q, k, v = (y.reshape(n, -1, s) for y in np.split(
            mixed, [kh * s, 2 * kh * s], -1))
        of = np.arange(vh) // (vh // kh) if (
            p["arch"] == "qwen3next") else np.arange(vh) % kh
        q = (q / np.sqrt((q * q).sum(-1, keepdims=True) + 1e-6))[:, of]
        k = (k / np.sqrt((k * k).sum(-1, keepdims=True) + 1e-6))[:, of]
        q = q / np.sqrt(q.dtype.type(s))
        beta, a = self.rates(b, x)
        beta = sigmoid(beta)
        kept = np.exp(self.w[b + "ssm_a"] * np.logaddexp(
            0, a + self.w[b + "ssm_dt.bias"]))
        state, out = np.zeros((vh, s, s), x.dtype), np.zeros_like(v)
        for t in range(n):
            state = state * kept[t][:, None, None]
            wrong = v[t] - np.einsum("hkv,hk->hv", state, k[t])
            state = state + np.einsum("hk,hv->hkv", k[t],
                                      beta[t][:, None] * wrong)
            out[t] = np.einsum("hkv,hk->hv", state, q[t])
        gate = silu(self.linear(b + "attn_gate", x)).reshape(n, vh, s)
        out = self.normed(b + "ssm_norm", out) * gate
        return self.linear(b + "ssm_out", out.reshape(n, -1))

    # ------------------------------------------------------------------ FFN

    def ffn(self, b, x, suffix=""):
        gate = silu(self.linear(f"{b}ffn_gate{suffix}", x))
        return self.linear(f"{b}ffn_down{suffix}",
                           gate * self.linear(f"{b}ffn_up{suffix}", x))

    def routing(self, b, x):
        """The weight of each expert for each row, 0 where it is not chosen."""
        p = self.p
        scores = self.linear(b + "ffn_gate_inp", x)
        is_glm, is_qwen = p["arch"] == "glm4moe", p["arch"].startswith("qwen")
        odds = sigmoid(scores) if is_glm else softmax(scores)
        by = odds
        if is_glm:
            by = odds + self.w[b + "exp_probs_b.bias"]
        chosen = np.argsort(-by, -1, kind="stable")[:, :p["used"]]
        weight = np.zeros_like(odds)
        np.put_along_axis(weight, chosen,
                          np.take_along_axis(odds, chosen, -1), -1)
        if is_glm or is_qwen:
            weight = weight / weight.sum(-1, keepdims=True)
        return weight * p.get("weights_scale", 1.0)

    def mixture(self, b, x):
        """Routed experts and the shared one."""
        weight, y = self.routing(b, x), np.zeros_like(x)
        for e in range(self.p["experts"]):
            gate, up, down = (self.w[f"{b}ffn_{name}_exps.weight"][e]
                              for name in ("gate", "up", "down"))
            y += weight[:, e:e + 1] * (
                (silu(x @ gate.T) * (x @ up.T)) @ down.T)
        shared = self.ffn(b, x, "_shexp")
        if b + "ffn_gate_inp_shexp.weight" in self.w:
            shared = shared * sigmoid(
                x @ self.w[b + "ffn_gate_inp_shexp.weight"])[:, None]
        return y + shared

    # --------------------------------------------------------------- layers

    def layer(self, il, x, positions=None, sees_past=True):
        """The rows x after layer il, at positions 0, 1, ... or those given."""
        b = f"blk.{il}."
        if positions is None:
            positions = np.arange(len(x))
        a = self.normed(b + "attn_norm", x)
        if b + "ssm_a" in self.w:
            x = x + self.delta_net(b, a)
        else:
            attend = self.gated_attention
            if self.p["arch"] == "glm4moe":
                attend = self.attention
            if self.p["arch"] == "deepseek2":
                attend = self.latent_attention
            x = x + attend(b, a, positions, sees_past)
        norm = "post_attention_norm"
        if b + "ffn_norm.weight" in self.w:
            norm = "ffn_norm"
        f = self.normed(b + norm, x)
        is_dense = b + "ffn_gate.weight" in self.w
        return x + (self.ffn(b, f) if is_dense else self.mixture(b, f))

    def matrix(self, *names):
        """The first of these matrices that the file has."""
        return next(self.w[name + ".weight"] for name in names
                    if name + ".weight" in self.w)

    def main(self, ids):
        """The residual stream before and after output_norm, and the logits."""
        x = self.matrix("token_embd")[ids]
        for il in range(self.p["layers"]):
            x = self.layer(il, x)
        normed = self.normed("output_norm", x)
        return x, normed, normed @ self.matrix("output", "token_embd").T

    # ----------------------------------------------------------------- head

    def head(self, rules, hidden, next_ids, positions=None):
        """The head's rows before and after its norm, and its logits.

        Row i is made of hidden[i] and of the id after it.
        """
        b = f"blk.{self.p['layers']}.nextn."
        table = self.matrix(b + "embed_tokens", "token_embd")
        e = self.normed(b + "enorm", table[next_ids]) * rules.embedding_felt
        h = self.normed(b + "hnorm", hidden) * rules.hidden_felt
        both = [e, h] if rules.embedding_first else [h, e]
        x = self.linear(b + "eh_proj", np.concatenate(both, -1))
        x = self.layer(self.p["layers"], x, positions, rules.sees_past)
        normed = self.normed(b + "shared_head_norm", x)
        logits = normed @ self.matrix(
            b + "shared_head_head", "output", "token_embd").T
        return x, normed, logits

    def guesses(self, rules, ids, next_id, main, count=3):
        """Log-probabilities of the head's rows, and of a chain of guesses.

        main is what main(ids) returns. Returns [ids, vocabulary] of the rows
        whose next tokens are ids[1:] and next_id, and [count, vocabulary] of
        the guesses: the first is the last row's, each other one follows the
        likeliest id of the one before.
        """
        hidden = main[1] if rules.normed else main[0]
        following = [*ids[1:], next_id]
        if rules.zeros_first:
            following.insert(0, ids[0])
            hidden = np.concatenate([np.zeros_like(hidden[:1]), hidden])
        positions, rows, chain = np.arange(len(following)), None, []
        while True:
            before, after, logits = self.head(
                rules, hidden, following, positions)
            logprobs = log_softmax(logits)
            rows = logprobs[-len(ids):] if rows is None else rows
            chain.append(logprobs[-1])
            if len(chain) == count:
                return rows, np.stack(chain)
            following.append(int(logprobs[-1].argmax()))
            own = after if rules.chain_normed else before
            hidden = np.concatenate([hidden, own[-1:]])
            positions = np.append(positions, positions[-1] + rules.moves)
