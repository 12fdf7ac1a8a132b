"""Makes a tiny Llama with random weights and a tokenizer of its own, for tests with a real vLLM.

``python tools/make_tiny_model.py FOLDER``: 300 kB, always the same bytes; nothing is downloaded and
nothing but the standard library is needed. The tokenizer knows 509 short words, each one token: a text
of N of them has N tokens, and each token can be shown as soon as it is made, so that a client need not
wait for a first text longer than for a first token.
"""

import itertools
import json
import random
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SPECIAL = ("<s>", "</s>", "<unk>")
WORDS = tuple(
    "".join(sounds) for sounds in itertools.product("bdfgklmnprstvwz", "aeiou", "lmnrstx")
)
VOCABULARY = (*SPECIAL, *WORDS)[:512]
HIDDEN, INNER, LAYERS, HEADS = 64, 128, 2, 2
LONGEST = 4096
"""Tokens of a request at most."""
CHAT = (
    "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": len(VOCABULARY),
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": HIDDEN // HEADS,
    "hidden_act": "silu",
    "max_position_embeddings": LONGEST,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "torch_dtype": "bfloat16",
}
TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {
            "id": number,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, word in enumerate(SPECIAL)
    ],
    "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": None,
    # Without a decoder words are joined by blanks.
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {word: number for number, word in enumerate(VOCABULARY)},
        "unk_token": "<unk>",
    },
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<unk>",
    "model_max_length": LONGEST,
    "clean_up_tokenization_spaces": False,
    "chat_template": CHAT,
}


def shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the weights, as a Llama's file has them."""
    yield "model.embed_tokens.weight", (len(VOCABULARY), HIDDEN)
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        yield f"{name}.input_layernorm.weight", (HIDDEN,)
        for part in "qkvo":
            yield f"{name}.self_attn.{part}_proj.weight", (HIDDEN, HIDDEN)
        yield f"{name}.post_attention_layernorm.weight", (HIDDEN,)
        yield f"{name}.mlp.gate_proj.weight", (INNER, HIDDEN)
        yield f"{name}.mlp.up_proj.weight", (INNER, HIDDEN)
        yield f"{name}.mlp.down_proj.weight", (HIDDEN, INNER)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (len(VOCABULARY), HIDDEN)


def bfloat16(values: Iterator[float]) -> bytes:
    """Numbers as the upper half of their 32 bits, which is what bfloat16 keeps."""
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def weights() -> bytes:
    """A safetensors file: the length of its header, the header in JSON, the numbers."""
    draw = random.Random(0)  # noqa: S311  (nobody's secret)
    header: dict[str, Mapping[str, object]] = {}
    data = bytearray()
    for name, shape in shapes():
        count = 1
        for side in shape:
            count *= side
        is_scale = len(shape) == 1
        begin = len(data)
        data += bfloat16(1.0 if is_scale else draw.gauss(0, 0.02) for _ in range(count))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": (begin, len(data))}
    told = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    told += b" " * (-len(told) % 8)
    return struct.pack("<Q", len(told)) + told + bytes(data)


def make_tiny_model(folder: Path) -> None:
    """Write the model's files, those of an earlier one replaced. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, told in (
        ("config.json", CONFIG),
        ("tokenizer.json", TOKENIZER),
        ("tokenizer_config.json", TOKENIZER_CONFIG),
    ):
        (folder / name).write_text(f"{json.dumps(told, indent=1)}\n", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(weights())


def main() -> None:
    """Make it where the command line says."""
    if len(sys.argv) != 2:  # noqa: PLR2004  (the program and the folder)
        sys.exit("usage: make_tiny_model.py FOLDER")
    make_tiny_model(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
