"""Tokenizer, text encoder, and the prompts of training batches."""

import math
import random
from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import NFKC, Lowercase
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

from omni_cli.models.demo.scenes import Scene
from tools.demo_model.scene_data import paraphrase, vocabulary

PAD, EOS, UNK = 0, 1, 2
WIDTH = 64
MAX_LENGTHS = (32, 512)
DROPPED, UNKNOWN = 0.1, 0.05
"""Probabilities of an empty prompt and of an unknown word in a prompt."""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer: an id per word of the training sentences, `<unk>` for all others."""
    words = {word: index for index, word in enumerate(("<pad>", "</s>", "<unk>", *vocabulary()))}
    backend = Tokenizer(WordLevel(words, unk_token="<unk>"))
    backend.normalizer = Normalizers([NFKC(), Lowercase()])
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", EOS)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=512
    )


def build_encoder(vocabulary_size: int) -> UMT5EncoderModel:
    """Return an untrained text encoder of 90 thousand parameters."""
    config = UMT5Config(
        vocab_size=vocabulary_size, d_model=WIDTH, d_kv=16, d_ff=128, num_layers=2, num_heads=4, dropout_rate=0.0,
        feed_forward_proj="gated-gelu", relative_attention_max_distance=64, pad_token_id=PAD, eos_token_id=EOS,
    )  # fmt: skip
    return UMT5EncoderModel(config)


def captions(scenes: Sequence[Scene], rng: random.Random) -> list[str]:
    """Return a training prompt per scene, some empty (for guidance), some with an unknown word."""
    sentences = []
    for scene in scenes:
        words = paraphrase(scene, rng).split(" ")
        if rng.random() < UNKNOWN:
            words.insert(rng.randint(0, len(words)), "<unk>")
        sentences.append("" if rng.random() < DROPPED else " ".join(words))
    return sentences


def embed(
    model: UMT5EncoderModel, tokenizer: PreTrainedTokenizerFast, sentences: Sequence[str], max_lengths: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return embeddings, float32 [B, L + 1, 64], and the bias of attention logits over them, float32 [B, 1, 1, L + 1].

    A Wan pipeline pads embeddings with zero rows up to `max_sequence_length`, and its transformer attends to them. All
    these rows are equal, so one row with a bias of log n replaces n of them exactly.
    """
    batch = tokenizer(list(sentences), padding=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    hidden = model(ids, mask).last_hidden_state * mask.unsqueeze(-1)
    lengths = mask.sum(1)
    bias = torch.zeros(len(sentences), ids.size(1) + 1)
    bias[:, :-1].masked_fill_(mask == 0, -math.inf)
    bias[:, -1] = (torch.tensor(max_lengths) - lengths).clamp(min=0).log()
    return torch.cat([hidden, hidden.new_zeros(len(sentences), 1, WIDTH)], 1), bias[:, None, None]
