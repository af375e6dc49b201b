"""Generation: prompt, decode, and sampling on the host."""

from dataclasses import dataclass

import numpy as np

from firmware.driver import Counters
from firmware.errors import UserError

__all__ = ["Generation", "Sampling", "generate"]


@dataclass(frozen=True)
class Sampling:
    """Sampling from logits: ``top_k`` most likely tokens (0: all) at ``temperature`` above 0."""

    temperature: float
    top_k: int = 0
    seed: int = 0

    def __post_init__(self):
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"temperature is {self.temperature}; it must be above 0 (without it the answer is greedy)")
        if self.top_k < 0:
            raise UserError(f"top-k is {self.top_k}; it must be 0 (all tokens) or more")

    def choose(self, logits, rng):
        """A token drawn from *logits* by *rng* (a NumPy generator)."""
        best = np.argsort(-logits, kind="stable")[:self.top_k or None]
        likeliest = logits[best].astype(np.float64)
        with np.errstate(over="ignore"):  # to minus infinity, weight 0
            weights = np.exp((likeliest - likeliest[0]) / self.temperature)
        return int(rng.choice(best, p=weights / weights.sum()))


@dataclass(frozen=True)
class Generation:
    """A generated answer. ``decode`` covers the steps that consume a generated token; the last one is not consumed."""

    tokens: list
    prompt: Counters
    decode: Counters
    decode_steps: int
    logits: list  # of each step with head, if asked for


async def generate(driver, prompt, count, *, sampling=None, stop=(), keep_logits=False, on_token=None):
    """Generate up to *count* tokens after the token ids *prompt*; ends after a token of *stop*.

    Greedy without *sampling*: the accelerator runs all steps by itself and ends at the first token of *stop* (it knows
    one; tokens behind another are dropped). Otherwise, and with *keep_logits*, logits go through memory and the host
    starts every step. *on_token* is called with each token as it comes.
    """
    if not prompt:
        raise UserError("the prompt has no tokens: write something to continue")
    if count < 1:
        raise UserError(f"{count} tokens asked for: ask for 1 or more")
    end, context = len(prompt) + count - 1, driver.compiled.layout.context
    if end > context:
        raise UserError(f"{len(prompt)} prompt tokens and {count} more need a context of {end}; there are {context}: "
                        "shorten the prompt or generate less")
    answer = Answer(driver, sampling, stop, keep_logits, on_token)
    spent = Counters.zero()
    for position, token in enumerate(prompt[:-1]):
        spent += (await driver.run(token, position, head=False)).counters
    spent += await answer.step(prompt[-1], len(prompt) - 1)
    decode = Counters.zero()
    if sampling is None and not keep_logits:
        if count > 1 and not answer.ended:
            decode = await answer.run(len(prompt), count - 1)
    else:
        while len(answer.tokens) < count and not answer.ended:
            decode += await answer.step(answer.tokens[-1], len(prompt) + len(answer.tokens) - 1)
    return Generation(answer.tokens, spent, decode, len(answer.tokens) - 1, answer.logits)


class Answer:
    """Tokens as they come."""

    def __init__(self, driver, sampling, stop, keep_logits, on_token):
        self._driver, self._sampling, self._stop = driver, sampling, tuple(stop)
        self._keep, self._on_token = keep_logits, on_token
        self._rng = None if sampling is None else np.random.default_rng(sampling.seed)
        self.tokens, self.logits = [], []
        self.ended = False

    def _add(self, token):
        if not self.ended:
            self.tokens.append(token)
            self.ended = token in self._stop
            if self._on_token is not None:
                self._on_token(token)

    async def step(self, token, position):
        """One step with head, started by the host; its counters."""
        wants_logits = self._keep or self._sampling is not None
        run = await self._driver.run(token, position, logits=wants_logits)
        choice = run.tokens[0]
        if wants_logits:
            logits = await self._driver.logits()
            if self._keep:
                self.logits.append(logits)
            if self._sampling is not None:
                choice = self._sampling.choose(logits, self._rng)
        self._add(choice)
        return run.counters

    async def run(self, position, steps):
        """*steps* greedy steps from the last token, by the accelerator itself; their counters."""
        stop = self._stop[0] if self._stop else None
        run = await self._driver.run(self.tokens[-1], position, steps, stop=stop, on_token=self._add)
        return run.counters
