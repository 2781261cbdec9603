"""Builds the tiny policy from nothing: a character tokenizer and a Qwen3 small enough for a CPU. Trains nothing."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rlguide.environment.reward import CLOSE_TAG, OPEN_TAG, SYSTEM_PROMPT
from rlguide.programs.shape import Shape

PAD, TURN_START, TURN_END, UNKNOWN = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>"
PROMPT_HEAD = f"{TURN_START}system\n{SYSTEM_PROMPT}{TURN_END}\n{TURN_START}user\n"
"""All that comes before the user's text in the task's own prompt, as one token."""
PROMPT_TAIL = f"{TURN_END}\n{TURN_START}assistant\n"
"""All that comes between the user's text and the completion, as one token."""
SPECIAL = (PAD, TURN_START, TURN_END, UNKNOWN, PROMPT_HEAD, PROMPT_TAIL)
TAGS = (OPEN_TAG, CLOSE_TAG)
"""Ordinary tokens: servers leave special ones out of the text they return, and every reward would be 0."""
CHARACTERS = (*(chr(code) for code in range(32, 127)), "\n")
MAX_POSITIONS = 2048
"""The guide's `seq_len`."""
HEAD_DIM = 64
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character, and one for each fixed string of the task; anything else is `<unk>`.

    A prompt of the task is the text and two tokens more. Other system prompts are spelled character by character.
    """
    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *TAGS, *CHARACTERS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=TURN_END,
        padding_side="left",
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, shape: Shape) -> Qwen3ForCausalLM:
    """An untrained Qwen3 in float32; torch's seed decides its weights."""
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 8) * 8,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=HEAD_DIM,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = sampling_defaults(tokenizer)
    return model


def sampling_defaults(tokenizer: PreTrainedTokenizerFast) -> GenerationConfig:
    """What a server does unless asked otherwise: plain sampling at temperature 1 from the whole distribution.

    Without `do_sample` a server would return the same completion every time, whatever the temperature.
    """
    return GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
