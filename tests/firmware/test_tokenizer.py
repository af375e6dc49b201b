"""Tokenizers built from GGUF fields: SmolLM2's ids, the chat template, streams of text, and refusals."""

import pytest

from firmware.errors import UserError
from firmware.gguf_model import read_model
from firmware.tokenizer import Tokenizer
from sim.model_fetch import smollm2
from sim.random_model import RandomLlama, write_model


@pytest.fixture(scope="module")
def smol():
    return Tokenizer(read_model(smollm2()).tokenizer)


@pytest.fixture(scope="module")
def fields(tmp_path_factory):
    """A byte-level vocabulary with one merge (a b)."""
    return read_model(write_model(tmp_path_factory.mktemp("model") / "m.gguf", RandomLlama())).tokenizer


SYSTEM = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2,
          198]
"""<|im_start|>system ... You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>"""


def test_smollm2_chat_prompt(smol):
    prompt = smol.chat("What is gravity?")
    assert len(prompt) == 34 and prompt[:21] == SYSTEM
    assert prompt[21:] == [1, 4093, 198, 1780, 314, 9354, 47, 2, 198, 1, 520, 9531, 198]
    assert smol.has_chat_template and smol.stop == {0, 2} and (smol.bos, smol.eos) == (1, 2)


@pytest.mark.parametrize("text", [
    "Plain words, and  two spaces.\n\n\tTabs", "12345 and 3.14", "it's they'll WE'VE", "Größe 日本語 🙂", ""])
def test_smollm2_round_trip(smol, text):
    ids = smol.encode(text)
    assert smol.decode(ids) == text
    stream = smol.stream()
    assert "".join(stream.push(i) for i in ids) == text


def test_smollm2_digits_are_single_tokens(smol):
    assert [smol.decode([i]) for i in smol.encode("2025")] == ["2", "0", "2", "5"]


def test_control_tokens_are_matched_whole_and_left_out_of_text(smol):
    ids = smol.encode("<|im_start|>a<|im_end|>")
    assert ids[0] == 1 and ids[-1] == 2 and smol.decode(ids) == "a"


def test_merges_come_from_the_file(fields):
    tokenizer = Tokenizer(fields)
    names = fields["tokenizer.ggml.tokens"]
    assert [names[i] for i in tokenizer.encode("abba")] == ["ab", "b", "a"]


def test_begin_token_when_the_file_asks_for_it(fields):
    tokenizer = Tokenizer(fields | {"tokenizer.ggml.add_bos_token": True})
    assert tokenizer.encode("a")[0] == 1 and tokenizer.encode("<|im_start|>a")[:2] != [1, 1]


@pytest.mark.parametrize("pre, expected", [
    ("gpt-2", ["a", "Ġ", "1234"]), ("llama-bpe", ["a", "Ġ", "123", "4"]), ("qwen2", ["a", "Ġ", "1", "2", "3", "4"]),
    ("smollm", ["a", "Ġ", "1", "2", "3", "4"]),
])
def test_pre_tokenizers_cut_numbers(fields, pre, expected):
    names = list(fields["tokenizer.ggml.tokens"])
    names[-3:] = ["12", "123", "1234"]
    more = {"tokenizer.ggml.tokens": names, "tokenizer.ggml.merges": ["1 2", "12 3", "123 4"],
            "tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": False,
            "tokenizer.ggml.token_type": [3] * 3 + [1] * (len(names) - 3)}
    assert [names[i] for i in Tokenizer(fields | more).encode("a 1234")] == expected


def test_sentence_piece():
    """Scores rank the merges; what the vocabulary lacks falls back to bytes; a leading space goes in and comes off."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "b", "c", "ab", "bc", "▁ab"]
    fields = {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 7,
        "tokenizer.ggml.scores": [0.0] * 259 + [-9.0, -8.0, -8.0, -8.0, -2.0, -1.0, -3.0],
    }
    tokenizer = Tokenizer(fields)
    assert [pieces[i] for i in tokenizer.encode("ab")] == ["<s>", "▁ab"]
    assert [pieces[i] for i in tokenizer.encode("abc")] == ["<s>", "▁", "a", "bc"]
    assert [pieces[i] for i in tokenizer.encode("é")] == ["<s>", "▁", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("ab é c")) == "ab é c"
    assert tokenizer.chat("ab") == tokenizer.encode("ab") and not tokenizer.has_chat_template


def test_template_is_sandboxed(fields):
    for evil in ("{{ ''.__class__.__mro__ }}", "{{ cycler.__init__.__globals__.os.system('true') }}"):
        with pytest.raises(UserError, match="chat template"):
            Tokenizer(fields | {"tokenizer.chat_template": evil}).chat("a")


def test_a_template_may_refuse(fields):
    with pytest.raises(UserError, match="no users here"):
        Tokenizer(fields | {"tokenizer.chat_template": "{{ raise_exception('no users here') }}"}).chat("a")


@pytest.mark.parametrize("change, expected", [
    ({"tokenizer.ggml.model": "rwkv"}, "'rwkv' is not supported"),
    ({"tokenizer.ggml.pre": "mystery"}, "'mystery' is not supported"),
    ({"tokenizer.ggml.merges": ["not there"]}, "damaged"),
])
def test_refusals(fields, change, expected):
    with pytest.raises(UserError, match=expected):
        Tokenizer(fields | change)


def test_missing_fields_are_named():
    with pytest.raises(UserError, match="'none' is not supported"):
        Tokenizer({})
    with pytest.raises(UserError, match="tokenizer.ggml.merges"):
        Tokenizer({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["a"]})
