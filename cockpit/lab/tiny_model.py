"""Make the lab's model: a small random Qwen3 in several shards. Run by the environment's own Python.

``python tiny_model.py FOLDER`` writes config, tokenizer, chat template, and the weights in four safetensors
shards with their index: about 1.4 MB, 0.7 M parameters. What it says is letters, mostly in the alphabet's order, the
same each time at temperature 0. Standard library, torch, tokenizers and transformers only: it imports nothing of
the cockpit's.
"""

import sys

SHARD_SIZE = "400KB"
"""Gives four shards at these sizes."""

READABLE = "abcdefghijklmnopqrstuvwxyzĠ"
"""What the model says, in this order: small letters, and the space as the byte-level alphabet writes it."""

LOUDNESS = 40.0
"""How much louder these are than random weights make them: at temperature 1 they still come alone."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}"
)


def alphabet() -> list[str]:
    """One character for each byte."""
    from tokenizers import pre_tokenizers  # type: ignore[import-not-found]

    return list(pre_tokenizers.ByteLevel.alphabet())


def make_tokenizer(folder: str) -> None:
    """A byte-level BPE tokenizer without merges: one token a byte, and the special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast  # type: ignore[import-not-found]

    vocab = {char: index for index, char in enumerate(sorted(alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def make_weights(folder: str) -> None:
    """Random weights by a fixed seed. The vocabulary is rounded up to 384, as TP=2 wants it even."""
    import torch  # type: ignore[import-not-found]
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=384,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=256,
        pad_token_id=257,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        # Each letter answers the one before it; other bytes, and ids without a token, hardly come.
        ids = [sorted(alphabet()).index(char) for char in READABLE]
        before = model.model.embed_tokens.weight[[ids[-1], *ids[:-1]]].clone()
        model.lm_head.weight.zero_()
        model.lm_head.weight[ids] = before * LOUDNESS
    model = model.to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size=SHARD_SIZE)


if __name__ == "__main__":
    make_tokenizer(sys.argv[1])
    make_weights(sys.argv[1])
