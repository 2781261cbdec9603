"""The tiny policy's tokenizer, chat template and shape; nothing is trained."""

from pathlib import Path

import pytest
import transformers

from rlguide.environment.reward import CLOSE_TAG, OPEN_TAG, prompt_messages
from rlguide.environment.texts import load_texts
from rlguide.programs import tiny_policy

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> transformers.PreTrainedTokenizerFast:
    """As a user gets it: saved, and loaded by its folder."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_policy.build_tokenizer().save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


def ids(tokenizer: transformers.PreTrainedTokenizerFast, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def test_prompt_is_the_text_and_two_tokens(tokenizer: transformers.PreTrainedTokenizerFast) -> None:
    for text in load_texts("heldout"):
        chat = tokenizer.apply_chat_template(prompt_messages(text), tokenize=False, add_generation_prompt=True)

        assert len(ids(tokenizer, chat)) == len(text) + 2
        assert tokenizer.decode(ids(tokenizer, chat)) == chat


def test_other_system_prompts_and_none_are_spelled_out(tokenizer: transformers.PreTrainedTokenizerFast) -> None:
    for messages in (
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        [{"role": "user", "content": "hi"}],
        [*prompt_messages("hi"), {"role": "assistant", "content": "ih"}, {"role": "user", "content": "again"}],
    ):
        chat = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

        assert tokenizer.decode(ids(tokenizer, chat)) == chat
        assert tokenizer.unk_token_id not in ids(tokenizer, chat)


def test_every_printable_character_and_newline_survives(tokenizer: transformers.PreTrainedTokenizerFast) -> None:
    text = "".join(chr(code) for code in range(32, 127)) + "\n  two blanks , kept ."

    assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=True) == text
    assert len(ids(tokenizer, text)) == len(text)


def test_what_it_cannot_spell_is_unknown_and_never_padding(tokenizer: transformers.PreTrainedTokenizerFast) -> None:
    assert ids(tokenizer, "é🙂\t") == [tokenizer.unk_token_id] * 3
    assert tokenizer.unk_token_id != tokenizer.pad_token_id


def test_answer_tags_are_single_tokens_that_servers_do_not_hide(
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> None:
    answer = f"{OPEN_TAG}cba{CLOSE_TAG}"

    assert len(ids(tokenizer, answer)) == 5
    assert tokenizer.decode([*ids(tokenizer, answer), tokenizer.eos_token_id], skip_special_tokens=True) == answer


def test_model_is_small_long_and_samples_by_default(
    tokenizer: transformers.PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tiny_policy.build_model(tokenizer, tiny_policy.Shape()).save_pretrained(tmp_path)

    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)

    assert model.num_parameters() <= 4_000_000
    assert (tmp_path / "model.safetensors").stat().st_size <= 8_000_000
    assert model.config.head_dim in (64, 128)
    assert model.config.max_position_embeddings >= 2048
    assert model.config.vocab_size % 8 == 0
    assert model.config.vocab_size >= len(tokenizer)
    assert model.generation_config.do_sample
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
