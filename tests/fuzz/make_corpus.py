#!/usr/bin/env python3
"""Writes the committed seeds: tests/fuzz/corpus/TARGET/NAME, a few small inputs
each that take a target past its first checks. Every run writes the same bytes.

usage: make_corpus.py [FOLDER]
"""

import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
U8, I32, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 5, 4, 6, 7, 8, 9, 10
NUMBERS = {U8: "B", I32: "i", U32: "I", F32: "f", BOOL: "?", U64: "Q"}


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return string(value) if kind == STRING else struct.pack("<" + NUMBERS[kind], value)


def entry(key, kind, value, element=None):
    out = string(key) + struct.pack("<I", kind)
    if kind != ARRAY:
        return out + scalar(kind, value)
    out += struct.pack("<IQ", element, len(value))
    return out + b"".join(scalar(element, one) for one in value)


def gguf(entries, tensors=(), alignment=32):
    """A GGUF file; tensors are (name, dims) of float32 zeros."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    out += b"".join(entry(*one) for one in entries)
    data = 0
    for name, dims in tensors:
        out += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, data)
        size = 4
        for dim in dims:
            size *= dim
        data += -(-size // alignment) * alignment
    out += bytes(-len(out) % alignment)
    return out + bytes(data)


TINY = [
    ("general.architecture", STRING, "llama"),
    ("llama.block_count", U32, 1),
    ("llama.context_length", U32, 64),
    ("llama.embedding_length", U32, 8),
    ("llama.feed_forward_length", U32, 8),
    ("llama.attention.head_count", U32, 2),
    ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
    ("tokenizer.ggml.model", STRING, "no_vocab"),
]
TINY_TENSORS = [("token_embd.weight", (8, 4)), ("output_norm.weight", (8,))]
TINY_TENSORS += [(f"blk.0.{n}_norm.weight", (8,)) for n in ("attn", "ffn")]
TINY_TENSORS += [
    (f"blk.0.{n}.weight", (8, 8))
    for n in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
]


def gguf_seeds():
    every_type = [
        ("a", U8, 1),
        ("b", BOOL, True),
        ("c", U64, 1 << 40),
        ("d", ARRAY, [1.5, -2.0], F32),
        ("e", ARRAY, ["", "two", "\u00e9"], STRING),
        ("general.alignment", U32, 64),
    ]
    tiny = gguf(TINY, TINY_TENSORS)
    return {
        "empty": gguf([]),
        "tiny_model": tiny,
        "cut_in_its_tensors": tiny[:600],
        "every_type": gguf(every_type, [("t", (3, 2))], 64),
    }


def shape_seeds():
    """Numbers of a model, changes of its bytes, load options, a budget."""

    def model(mode, flags, options, budget):
        sizes = bytes([flags, 3, 3, 1, 1, 3, 5, 60])
        return bytes([mode]) + sizes + struct.pack("<II", 4096, 512) + options + budget

    budget = struct.pack("<q", 64 << 20)
    plain = struct.pack("<BHHHBB", 0, 1, 512, 0, 1, 1)
    full = struct.pack("<BqqHHHBBq", 7, 1000, 900, 4, 64, 2, 8, 8, 1 << 20)
    return {
        "longest_context": model(1, 4, plain, budget),
        "windows_and_vocabulary": model(1, 3, full, budget),
        "nothing_fits": model(1, 0, plain, struct.pack("<q", 1)),
        "one_byte_changed": model(2, 0, struct.pack("<IB", 70, 255) + plain, budget),
        "a_file": b"\0" + gguf(TINY, TINY_TENSORS),
    }


def lease_seeds():
    """Bytes choose: time, then a call and its arguments."""
    register = bytes([1, 1, 0, 0, 1, 1, 0, 1, 1])
    reserve = bytes([1, 1, 4, 1, 0, 0, 1, 44, 1, 1])
    release = bytes([1, 1, 10, 1, 5, 5, 1])
    keep = bytes([1, 1, 8, 1, 5, 5, 2, 1])
    every = bytes(i * 7 % 256 for i in range(512))
    return {
        "granted_and_released": register + 3 * (reserve + keep + release),
        "many_devices": b"".join(
            bytes([1, 1, 0, d, 2, 0, 1, 200, 1]) + reserve for d in range(3)
        )
        * 8,
        "time_passes": register + (reserve + bytes([2, 0]) + keep) * 12,
        "every_byte": every,
    }


def journal_seeds():
    """A byte says what follows: a file, changes of a sound one, or a log."""

    def change(place, value):
        return struct.pack(">HB", place, value)

    return {
        "empty_file": b"\0",
        "no_database": b"\0SQLite format 3\0" + bytes(84),
        "sound": b"\1",
        "page_size": b"\1" + change(16, 0) + change(17, 1),
        "row_of_the_schema": b"\1" + change(108, 13) + change(200, 255),
        "row_of_a_lease": b"\1" + b"".join(change(8_192 - i, 255) for i in (9, 60, 140)),
        "empty_log": b"\2",
        "log_without_frames": b"\2\x37\x7f\x06\x82" + struct.pack(">IIIIIII", 3007000, 4096, 0, 1, 2, 3, 4),
    }


def rolling_seeds():
    """Sizes of context, window, pins and evictions, then rows of each step."""
    steps = bytes(range(1, 256, 12))
    return {
        "shifts": bytes([52, 21, 8, 140]) + steps,
        "recomputes": bytes([0, 255, 255, 1]) + steps,
        "turns": bytes([255, 10, 2, 128]) + b"\0\x40\x80\0\x20" * 8,
    }


CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TURNS = (
    "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + role + "
    "'\\n' }}{{ message['content'] | trim }}{{ '<end_of_turn>\\n' }}{% endfor %}"
)
# A string ends with a backslash and another character; choices are read from
# the end, so they stand last and reversed.
CHAT = b"Be brief.\\ What is 2 + 2?\\ 4\\ <|im_end|>?\\ "
# The format functiongemma has objects for parameters, arguments and responses.
TOOLS = b'{"type":"object"}\\ <escape>?\\ {"k":"<escape>"}\\ {"ok":true}\\ '


def template_seeds():
    return {
        "template_chatml": CHATML.encode() + b"\1",
        "template_turns": TURNS.encode() + b"\1",
        "chat_smollm2": CHAT + bytes([1, 2, 1, 0, 1, 0, 0]),
        "chat_chatml": CHAT + bytes([1, 2, 1, 0, 1, 1, 0]),
        "chat_functiongemma": TOOLS + bytes([3, 2, 1, 0, 1, 3, 0]),
        "chat_gemma3": CHAT + bytes([1, 2, 1, 0, 1, 2, 0]),
    }


TEXTS = {
    "special_tokens": "<s>a</s>aaa<ss>s>s>\n\n  <b><b>",
    "spaces": " s  s   s\taa \u00a0 \u3000a",
    "scripts": "\u00e9t\u00e9 \u0434\u043e\u043c \u4f60\u597d \U0001f600\u200d\U0001f600",
    "numbers": "1 22 333 4444 -5.6e7 0x89",
    "contractions": "I'm you'll WE'VE it's 'tis",
}


def utf8_seeds():
    bad = b"\xc3(\xe2\x82\xed\xa0\x80\xf0\x9f\x98\xc0\x80\xff\xf4\x90\x80\x80"
    return {
        "whole": b"\0" + TEXTS["scripts"].encode(),
        "cut": b"\2" + TEXTS["scripts"].encode()[:-1],
        "bad": b"\1a" + bad + b"z",
    }


def build_seeds():
    """Strings from the front; choices and numbers from the back."""
    tokens = b"".join(token + b"\\ " for token in (b"a", b"b", b"ab", b"<s>", b"", b"\xc4\xa0"))
    merges = b"a b\\ ab a\\ "
    numbers = bytes([0, 0, 1, 3, 1] + [2, 1] * 6 + [6] + [1, 0] * 4)
    return {
        f"tables_{kind}": tokens + merges + b"abab <s>a" + numbers + bytes([1] * 5 + [pre, kind])
        for kind, pre in ((0, 0), (1, 1), (2, 2))
    }


CONFIGS = {
    "llama": '{"model_type":"llama","hidden_size":64,"num_hidden_layers":2,'
    '"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":2,'
    '"vocab_size":40,"max_position_embeddings":256}',
    "gemma3": '{"text_config":{"model_type":"gemma3_text","hidden_size":64,'
    '"num_hidden_layers":6,"intermediate_size":96,"num_attention_heads":4,'
    '"num_key_value_heads":2,"head_dim":16,"vocab_size":40,"sliding_window":32,'
    '"max_position_embeddings":256,"torch_dtype":"float16"}}',
    "experts": '{"model_type":"qwen3_moe","hidden_size":64,"num_hidden_layers":2,'
    '"intermediate_size":96,"moe_intermediate_size":32,"num_experts":4,'
    '"num_experts_per_tok":2,"num_attention_heads":4,"num_key_value_heads":2,'
    '"head_dim":16,"vocab_size":40,"max_position_embeddings":256}',
    "delta_net": '{"model_type":"qwen3_5_text","hidden_size":64,"num_hidden_layers":2,'
    '"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":2,'
    '"head_dim":16,"vocab_size":40,"max_position_embeddings":256,"layer_types":'
    '["linear_attention","full_attention"],"linear_conv_kernel_dim":4,'
    '"linear_key_head_dim":16,"linear_num_key_heads":2,"linear_num_value_heads":4,'
    '"linear_value_head_dim":16}',
    "short_conv": '{"model_type":"lfm2","hidden_size":64,"num_hidden_layers":2,'
    '"block_ff_dim":96,"block_multiple_of":32,"block_ffn_dim_multiplier":1.5,'
    '"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":40,'
    '"full_attn_idxs":[1],"conv_L_cache":3,"max_position_embeddings":256}',
    "mamba": '{"model_type":"nemotron_h","hidden_size":64,"num_hidden_layers":3,'
    '"hybrid_override_pattern":"M*E","intermediate_size":96,"num_attention_heads":4,'
    '"num_key_value_heads":2,"head_dim":16,"vocab_size":40,"mamba_num_heads":4,'
    '"mamba_head_dim":16,"ssm_state_size":16,"n_groups":2,"conv_kernel":4,'
    '"n_routed_experts":4,"num_experts_per_tok":2,"n_shared_experts":1,'
    '"moe_intermediate_size":32,"moe_shared_expert_intermediate_size":64,'
    '"max_position_embeddings":256}',
}


def safetensors(header, data_bytes):
    """A safetensors file of zeros."""
    return struct.pack("<Q", len(header)) + header.encode() + bytes(data_bytes)


def safetensors_seeds():
    two = (
        '{"__metadata__":{"format":"pt"},'
        '"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},'
        '"b":{"dtype":"F32","shape":[4],"data_offsets":[12,28]}}'
    )
    return {
        "two_tensors": safetensors(two, 28),
        "cut_off": safetensors(two, 20),
        "overlap": safetensors(two.replace("[12,28]", "[8,24]"), 28),
        "empty": safetensors("{}", 0),
    }


FLEET = "id,device,available_bytes\na,rtx-3070,\nb,rtx-3070,1000000\n"


def catalogue_seeds():
    lines = (HERE.parents[1] / "data" / "devices.csv").read_text().splitlines()
    data = [line for line in lines if not line.startswith("#")]
    return {
        "head": "\n".join(lines[:26]).encode() + b"\n",
        "devices": "\n".join(data[:1] + data[1::12]).encode() + b"\n",
        "fleet": FLEET.encode(),
    }


def tool_seeds():
    """Calls have a byte that no UTF-8 has for the token <escape>."""
    return {
        "call": b"call:f{k:\xffv\xff,n:-1.5e3,l:[true,null,{}],\xffa b\xff:{o:\xff\xff}}",
        "schema": b'{"type":"object","properties":{"k":{"type":"string","enum":["a"],'
        b'"description":"d"},"l":{"type":"array","items":{"type":["number","null"]}}},'
        b'"required":["k"]}',
    }


def jinja_seeds():
    """Our own templates, and one of what they do not have."""
    folder = HERE.parents[1] / "tests/testdata/templates"
    seeds = {path.stem: path.read_bytes() for path in folder.glob("*.jinja")}
    seeds["other"] = (
        b"{% macro m(a, b=[1]) %}{{ caller(a) }}{% endmacro %}{% call(y) m(x[1:]"
        b") %}{{ y|batch(2)|list }}{% endcall %}{% for k, v in messages[0]|items "
        b"recursive %}{{ loop.cycle(k, v) ~ '%s' % v }}{% else %}-{% endfor %}"
        b"{% filter upper %}{{ {'a': n ** 2} }}{{ '{:>4}'.format(n) }}"
        b"{% endfilter %}{{ x|map('string')|select('in', ['1'])|join }}"
    )
    return seeds


def encoded(texts):
    return {name: text.encode() for name, text in texts.items()}


SETTINGS = {
    "plain": (
        "[planner]\nlisten = '127.0.0.1:7070'  # here\nfirst = true\n[worker]\n"
        "slots = 8\nprompt-share = 0.47\nmodel = ['a=a.gguf',\n \"b=b.gguf\",]\n"
    ),
    "signs": '[serve]\r\na = "\\u00e9\\U0001F600\\t\\\\"\r\nb = [1_0, -2e+3, inf]\r\n',
}

REQUESTS = {
    "chat": (
        '{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user",'
        '"content":[{"type":"text","text":"u"}]},{"role":"assistant","tool_calls":[{'
        '"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{'
        '"role":"tool","tool_call_id":"c","content":"1"}],"tools":[{"type":"function",'
        '"function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto",'
        '"logprobs":true,"top_logprobs":2,"stream":true,"stream_options":{'
        '"include_usage":true},"response_format":{"type":"json_schema","json_schema":{'
        '"schema":{"type":"object"},"schema_options":{"any_order":true}}},"n":2,'
        '"logit_bias":{"7":-100},"stop":["a"],"reasoning":{"max_tokens":3},"seed":-1}'
    ),
    "completion": (
        '{"prompt":["a",[1,2]],"max_tokens":3,"temperature":0.5,"top_p":0.9,"n":2,'
        '"context_policy":"roll","roll":{"pin_tokens":4},"logprobs":1,"echo":false}'
    ),
    "message": (
        '{"model":"m","max_tokens":3,"system":[{"type":"text","text":"s"}],"messages":[{'
        '"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use",'
        '"id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":'
        '"tool_result","tool_use_id":"t","content":"1"}]}],"tools":[{"name":"f",'
        '"input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"thinking":{'
        '"type":"enabled","budget_tokens":9},"stop_sequences":["x"],"top_k":3}'
    ),
    "ollama": (
        '{"model":"m","messages":[{"role":"user","content":"u","images":[]}],"format":'
        '"json","options":{"num_predict":-1,"repeat_last_n":-1,"stop":["x"],"seed":3,'
        '"repeat_penalty":1.1},"keep_alive":"1h5m","think":"low","stream":false}'
    ),
    "generate": (
        '{"model":"m","prompt":"p","system":"s","raw":false,"keep_alive":0,"suffix":"",'
        '"options":{"num_ctx":64},"logprobs":true,"truncate":false}'
    ),
    "items": (
        '{"input":[{"role":"user","content":[{"type":"input_text","text":"u"}]},{"type":'
        '"reasoning","content":[{"type":"reasoning_text","text":"r"}],"summary":[]},{'
        '"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":'
        '"function_call_output","call_id":"c","output":"1"}]}'
    ),
    "response": (
        '{"model":"m","input":"u","instructions":"i","previous_response_id":"resp_1",'
        '"max_output_tokens":9,"text":{"format":{"type":"json_schema","name":"n",'
        '"schema":{"type":"object"}},"verbosity":"low"},"reasoning":{"effort":"low",'
        '"max_tokens":3},"store":false,"metadata":{"a":"b"},"include":[],"tools":[{'
        '"type":"function","name":"f","parameters":{"type":"object"},"strict":true}],'
        '"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,'
        '"top_p":0.5,"top_k":7,"seed":3,"stream":true,"truncation":"disabled"}'
    ),
}

def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(**fields):
    """A message of Protocol Buffers; fields are called f1, f2 and so on."""
    out = b""
    for name, value in fields.items():
        tag = int(name[1:]) << 3
        if isinstance(value, int):
            out += varint(tag) + varint(value)
        elif isinstance(value, float):
            out += varint(tag | 5) + struct.pack("<f", value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(tag | 2) + varint(len(value)) + value
    return out


def script(*calls):
    """Calls are (kind, message); the kinds are those of call_script_fuzz.cc."""
    return b"".join(
        bytes([kind]) + struct.pack("<H", len(data)) + data for kind, data in calls
    )


def call_seeds():
    model = message(f1="m")
    profile = message(f1="e", f2="cpu", f3="E", f4=1 << 30, f5=1 << 29, f6=1, f8=64)
    process = message(f1=1, f2=1, f3="boot", f4=1)
    reserve = message(f1="r", f2="d", f3="h", f4="m", f5=1000, f6=process)
    presented = message(f1="d", f2="h", f3="m", f4=10, f5=10)
    shape = message(f1="gemma3", f2=4, f3=64, f4=2, f5=1, f7=32, f9=64, f10=64,
                    f11=512, f12=64, f19=1)
    plan = message(f1=model, f2=message(f1=128, f3=2, f4=16), f3="d", f5=1 << 30)
    by_shape = message(f1=message(f4=shape), f4=profile)
    device = message(f1="d", f3=1 << 30)
    place = message(f1=message(f1="a", f2=model, f4=2), f2=message(f1="x", f2="d"))
    reply = message(
        f2=message(f1="hello"),
        f5=message(f1=0.5, f2=3, f3=0.9, f4=0.1, f5=7, f11=message(f1=3, f2=-1.5)),
        f6=message(f1=9, f2="stop", f3=5), f7=message(f1=2), f8=3, f9=message(f2=4),
        f10=message(f1='{"type":"integer"}', f5="<"))
    chat = message(f1=message(f1=2, f2="hi"), f4=message(f1="f", f3="{}"))
    session = message(f1="m", f2="s", f3="system", f6=128, f9=message(f1="f"))
    return {
        "leases": script((0, message(f1=profile, f3="h")), (1, reserve),
                         (2, message(f3=900, f4=5000)), (3, message(f3=4000)),
                         (5, message(f1="d")), (4, b"")),
        "presented": script((3, message(f1="l", f2=7, f4=presented)), (5, b"")),
        "plans": script((6, message(f1=model)), (7, plan), (7, by_shape),
                        (10, message(f1=plan))),
        "many": script((8, message(f1=message(f1=model), f2="d")),
                       (9, message(f1=model, f3=device)),
                       (11, message(f1=model, f3=device, f7=2, f8=64))),
        "fleets": script((12, place), (13, message(f1=model)),
                         (14, message(f1=model, f3="d"))),
        "texts": script((15, reply), (15, message(f4=chat)), (16, session)),
    }


SEEDS = {
    "call_script_fuzz": call_seeds(),
    "chat_template_fuzz": template_seeds(),
    "config_json_fuzz": encoded(CONFIGS),
    "device_catalogue_fuzz": catalogue_seeds(),
    "gguf_reader_fuzz": gguf_seeds(),
    "http_request_fuzz": encoded(REQUESTS),
    "jinja_fuzz": jinja_seeds(),
    "journal_open_fuzz": journal_seeds(),
    "lease_ops_fuzz": lease_seeds(),
    "model_shape_fuzz": shape_seeds(),
    "rolling_cache_fuzz": rolling_seeds(),
    "safetensors_fuzz": safetensors_seeds(),
    "settings_file_fuzz": encoded(SETTINGS),
    "tokenizer_build_fuzz": build_seeds(),
    "tokenizer_encode_fuzz": encoded(TEXTS),
    "tool_call_fuzz": tool_seeds(),
    "utf8_stream_fuzz": utf8_seeds(),
}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "corpus"
    for target, seeds in SEEDS.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, data in seeds.items():
            (folder / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
