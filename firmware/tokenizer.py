"""Text to tokens and back, from the vocabulary, merges and chat template that a GGUF file carries."""

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Engine

from firmware.errors import UserError

__all__ = ["TextStream", "Tokenizer"]

CONTROL, USER_DEFINED = 3, 4
"""Token types of GGUF that are matched whole in the text."""

STOP_NAMES = ("<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>")
"""Control tokens that end an answer where a vocabulary has them, beside its declared end tokens."""

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split_by(digits):
    """Pre-tokeniser of the Llama 3 family, with numbers cut into runs of *digits*."""
    pattern = Regex(rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}|{REST}")
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(pattern, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS = {
    "gpt-2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": lambda: pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "llama-bpe": lambda: split_by(r"\p{N}{1,3}"),
    "qwen2": lambda: split_by(r"\p{N}"),
}
"""By the name in tokenizer.ggml.pre."""


def byte_level_engine(fields, vocab):
    """BPE over bytes (GPT-2 and its descendants)."""
    name = fields.get("tokenizer.ggml.pre", "default")
    if name not in PRE_TOKENIZERS:
        known = ", ".join(PRE_TOKENIZERS)
        raise UserError(f"pre-tokenizer {name!r} is not supported (known: {known}); choose another model")
    merges = [tuple(m.split(" ", 1)) for m in fields["tokenizer.ggml.merges"]]
    engine = Engine(models.BPE(vocab=vocab, merges=merges, ignore_merges=name == "llama-bpe"))
    engine.pre_tokenizer = PRE_TOKENIZERS[name]()
    engine.decoder = decoders.ByteLevel()
    return engine


def sentence_piece_engine(fields, vocab):
    """SentencePiece BPE (Llama 1 and 2, Mistral): the scores rank the merges, unknown characters fall back to bytes."""
    scores = fields["tokenizer.ggml.scores"]
    pairs = [
        (scores[i], left, right)
        for piece, i in vocab.items() for cut in range(1, len(piece))
        if (left := piece[:cut]) in vocab and (right := piece[cut:]) in vocab
    ]
    pairs.sort(key=lambda p: (-p[0], -len(p[1])))
    unknown = fields["tokenizer.ggml.tokens"][fields.get("tokenizer.ggml.unknown_token_id", 0)]
    merges = [p[1:] for p in pairs]
    engine = Engine(models.BPE(vocab=vocab, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = [normalizers.Prepend("▁")] if fields.get("tokenizer.ggml.add_space_prefix", True) else []
    engine.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    engine.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return engine


ENGINES = {"gpt2": byte_level_engine, "llama": sentence_piece_engine}
"""By the name in tokenizer.ggml.model."""


class Tokenizer:
    """Tokenizer of a model, from ``LlamaModel.tokenizer``."""

    def __init__(self, fields):
        kind = fields.get("tokenizer.ggml.model", "none")
        if kind not in ENGINES:
            known = ", ".join(ENGINES)
            raise UserError(f"tokenizer of type {kind!r} is not supported (known: {known}); choose another model")
        try:
            tokens = fields["tokenizer.ggml.tokens"]
            ids = {t: i for i, t in enumerate(tokens)}
            self._engine = ENGINES[kind](fields, ids)
        except KeyError as error:
            raise UserError(f"the file has no field {error.args[0]}; convert the model again") from None
        except UserError:
            raise
        except Exception as error:  # the engine raises nothing narrower for merges that don't fit the vocabulary
            raise UserError(f"the file's tokenizer is damaged ({error}); convert the model again") from None
        types = fields.get("tokenizer.ggml.token_type", [1] * len(tokens))
        controls = [t for t, n in zip(tokens, types, strict=False) if n == CONTROL]
        users = [t for t, n in zip(tokens, types, strict=False) if n == USER_DEFINED]
        self._engine.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in controls])
        self._engine.add_tokens([AddedToken(t, normalized=False) for t in users])

        self._template = fields.get("tokenizer.chat_template")
        self.bos = fields.get("tokenizer.ggml.bos_token_id")
        self.eos = fields.get("tokenizer.ggml.eos_token_id")
        wants_bos = kind == "llama" or fields.get("tokenizer.ggml.pre") == "llama-bpe"
        self._add_bos = fields.get("tokenizer.ggml.add_bos_token", wants_bos)
        ends = {"bos_token": self.bos, "eos_token": self.eos}
        self._names = {name: "" if i is None else tokens[i] for name, i in ends.items()}
        declared = (self.eos, fields.get("tokenizer.ggml.eot_token_id"))
        self.stop = frozenset([i for i in declared if i is not None] + [ids[n] for n in STOP_NAMES if n in controls])
        """Tokens that end an answer."""

    @property
    def has_chat_template(self):
        return self._template is not None

    def encode(self, text):
        """Token ids of plain text, behind the begin token if the model wants one."""
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UserError("the prompt is not UTF-8 text: write it in that encoding") from None
        ids = self._engine.encode(text, add_special_tokens=False).ids
        if self._add_bos and self.bos is not None and ids[:1] != [self.bos]:
            ids.insert(0, self.bos)
        return ids

    def chat(self, text):
        """Token ids of a user's message in the chat template, up to where the answer begins.

        A model without a template gets the message as plain text.
        """
        if self._template is None:
            return self.encode(text)

        def refuse(message):
            raise UserError(f"the model's chat template refuses the prompt: {message}")

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = refuse
        try:
            template = environment.from_string(self._template)
            messages = [{"role": "user", "content": text}]
            rendered = template.render(messages=messages, add_generation_prompt=True, **self._names)
        except TemplateError as error:
            raise UserError(f"the model's chat template fails ({error}); use --raw or another model") from None
        return self.encode(rendered)

    def decode(self, ids):
        """Text of token ids, control tokens left out."""
        return self._engine.decode(list(ids), skip_special_tokens=True)

    def stream(self):
        """A :class:`TextStream` for an answer printed token by token."""
        return TextStream(self)


class TextStream:
    """Text as its tokens come, never half a character."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self._ids = []
        self._shown = 0

    def push(self, token):
        """The text that *token* completes, possibly none."""
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids)
        if text.endswith("\ufffd"):
            return ""
        new = text[self._shown:]
        self._shown = len(text)
        return new
