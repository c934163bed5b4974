"""Language and vision models that newer pipelines read their prompts and pictures with."""

from typing import Any

from transformers import (
    ByT5Tokenizer,
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    CLIPVisionModel,
    CLIPVisionModelWithProjection,
    Gemma2Config,
    Gemma2Model,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    LlamaConfig,
    LlamaModel,
    Mistral3Config,
    Mistral3ForConditionalGeneration,
    PaddleOCRVLProcessor,
    PreTrainedTokenizerFast,
    Qwen2_5_VLTextConfig,
    Qwen2_5_VLTextModel,
    Qwen2VLImageProcessorPil,
    Qwen3Config,
    Qwen3Model,
    UMT5Config,
    UMT5EncoderModel,
)

from tests.tiny.parts import BOS, EOS, MARKS, PAD, VOCABULARY, WIDTH, tokenizer

SIDE = 32
"""Side in pixels of the pictures that the vision models take."""

_CHAT = (
    "{% for message in messages %}{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}{% endfor %}"
)

_DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}


def chat_tokenizer(max_length: int, marks: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """A tokenizer whose chat template is the messages' text, one after another."""
    result = tokenizer(max_length, marks=marks)
    result.chat_template = _CHAT
    return result


def byt5_tokenizer() -> ByT5Tokenizer:
    """ByT5's own: it has no vocabulary file."""
    return ByT5Tokenizer()


def umt5() -> UMT5EncoderModel:
    """Wan's text encoder."""
    return UMT5EncoderModel(
        UMT5Config(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            d_kv=16,
            d_ff=WIDTH,
            num_layers=2,
            num_heads=2,
            dropout_rate=0.0,
            pad_token_id=PAD,
            eos_token_id=EOS,
        )
    ).eval()


def llama(layers: int = 4) -> LlamaModel:
    """HunyuanVideo's language model."""
    return LlamaModel(LlamaConfig(**_DECODER | {"num_hidden_layers": layers})).eval()


def gemma2() -> Gemma2Model:
    """Sana's language model."""
    return Gemma2Model(Gemma2Config(**_DECODER, head_dim=16)).eval()


def gemma3() -> Gemma3ForConditionalGeneration:
    """LTX-2's language model: its own hidden states, and a token vision tower."""
    return Gemma3ForConditionalGeneration(
        Gemma3Config(
            text_config=_DECODER | {"head_dim": 16},
            vision_config={
                "hidden_size": WIDTH,
                "intermediate_size": WIDTH,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": SIDE,
                "patch_size": 8,
            },
            mm_tokens_per_image=4,
        )
    ).eval()


def qwen3(layers: int = 2) -> Qwen3Model:
    """Z-Image's language model, and Flux 2 Klein's with more layers."""
    return Qwen3Model(Qwen3Config(**_DECODER | {"num_hidden_layers": layers}, head_dim=16)).eval()


def mistral3() -> Mistral3ForConditionalGeneration:
    """Flux 2's language model; the pipeline reads its hidden states 10, 20 and 30."""
    return Mistral3ForConditionalGeneration(
        Mistral3Config(
            text_config=_DECODER | {"model_type": "mistral", "head_dim": 8, "num_hidden_layers": 30},
            vision_config={
                "model_type": "pixtral",
                "hidden_size": WIDTH,
                "intermediate_size": WIDTH,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": SIDE,
                "patch_size": 8,
            },
        )
    ).eval()


def qwen_text() -> Qwen2_5_VLTextModel:
    """HunyuanVideo 1.5's language model, without eyes; the third hidden state from the end is read."""
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    return Qwen2_5_VLTextModel(Qwen2_5_VLTextConfig(**_DECODER, rope_parameters=rope)).eval()


def picture_processor() -> PaddleOCRVLProcessor:
    """Reads prompts with pictures as Qwen-Image-Edit's processor does, but needs no torchvision to be made."""
    text = tokenizer(2048, marks=MARKS, extra_special_tokens={"image_token": "<|image_pad|>"})
    return PaddleOCRVLProcessor(Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=56 * 56), text)


def clip_vision(projection: bool = False, width: int = WIDTH) -> Any:
    """A CLIP vision tower."""
    config = CLIPVisionConfig(
        hidden_size=width,
        intermediate_size=WIDTH,
        projection_dim=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=SIDE,
        patch_size=8,
    )
    return (CLIPVisionModelWithProjection if projection else CLIPVisionModel)(config).eval()


def clip_pictures() -> CLIPImageProcessorPil:
    """What `clip_vision` takes."""
    return CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
