"""Write a tiny Llama-shaped model folder: configuration and tokenizer, no weights.

The server makes random weights (``--load-format dummy``). The tokenizer knows
little more than single bytes, so a prompt has about one token a character.

usage: make_tiny_model.py FOLDER [hidden size] [layers]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>", "<|system|>"]
CONTEXT_TOKENS = 16_384
CHAT_TEMPLATE = (
    "{{ '<|bos|>' }}{% for m in messages %}"
    "{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(["what is the sum of these figures"] * 10, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": SPECIAL[0],
            "eos_token": SPECIAL[1],
            "model_max_length": CONTEXT_TOKENS,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def write_config(folder: Path, hidden: int, layers: int) -> None:
    write_json(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": hidden,
            "intermediate_size": hidden * 4,
            "num_hidden_layers": layers,
            "num_attention_heads": hidden // 64,
            "num_key_value_heads": max(1, hidden // 128),
            "head_dim": 64,
            "vocab_size": 320,
            "max_position_embeddings": CONTEXT_TOKENS,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "bos_token_id": 0,
            "eos_token_id": 1,
            "attention_bias": False,
            "mlp_bias": False,
        },
    )
    ids = {"bos_token_id": 0, "eos_token_id": 1}
    write_json(folder / "generation_config.json", ids)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write_tokenizer(target)
    numbers = [int(text) for text in sys.argv[2:]]
    write_config(target, *(numbers + [256, 4][len(numbers) :]))
