"""The accelerator's own speed for any model: from its structure if the preset can run the model, else from bytes."""

from dataclasses import dataclass

from firmware.errors import UserError
from firmware.layout import plan_layout
from firmware.traffic import step_traffic
from hw.config import BEAT_BYTES
from sim.roofline.devices import CLOCK_HZ
from sim.roofline.step import StepModel
from sim.roofline.work import decode_work
from sim.weight_types import KV8

__all__ = ["Accelerated", "accelerate"]


@dataclass(frozen=True)
class Accelerated:
    """Predicted decode of one sequence with a given number of tokens, and of a prompt as long.

    ``reason``: why the prediction is analytic only, or "". Clocks are of one token. Sequences of a batch follow each
    other, as weights meet one vector (V_w = 1).
    """

    clocks: float
    roof_clocks: float  # beats of the fullest channel
    lost: dict  # cause: clocks; empty if analytic
    model_mbu: float
    prompt_clocks: float  # mean of the prompt's tokens
    reason: str

    @property
    def tokens_per_second(self):
        return CLOCK_HZ / self.clocks

    @property
    def prompt_tokens_per_second(self):
        return CLOCK_HZ / self.prompt_clocks


def accelerate(model, weights, kv, config, context):
    """The :class:`Accelerated` of *model* on *config*, with *context* tokens, the newest included."""
    try:
        return structural(model, weights, kv, config, context)
    except UserError as error:
        return analytic(model, weights, kv, config, context, str(error))


def structural(model, weights, kv, config, context):
    """The prediction of :class:`sim.roofline.step.StepModel`; :class:`UserError` if *config* cannot run the model."""
    if kv != KV8:
        raise UserError(f"the accelerator keeps K and V as {KV8.name}, not {kv.name}")
    layout = plan_layout(model.shape(weights), config, context)
    steps = StepModel(layout)
    step = steps.predict(context - 1)
    traffic = step_traffic(layout, context - 1)
    # A prompt's clocks grow evenly with the position, but for fences: Simpson's rule over it.
    first, middle, last = (steps.predict(position, head=False).clocks for position in (0, context // 2, context - 1))
    prompt = (first + 4 * middle + last) / 6 + (step.clocks - last) / context
    return Accelerated(step.clocks, step.beats, step.lost,
                       traffic.model_bytes / (step.clocks * config.channels * BEAT_BYTES), prompt, "")


def analytic(model, weights, kv, config, context, reason):
    """Bytes over bandwidth; a KV beat counts as often as the slice holds it for its query heads."""
    group = model.heads if model.latent is not None else model.group
    passes = -(-group // config.v_kv)

    def clocks(older):
        work = decode_work(model, older, kv, weights=weights)
        moved = work.weight_bytes + work.vector_bytes + work.kv_written_bytes + passes * work.kv_read_bytes
        return work, moved / BEAT_BYTES / config.channels

    work, step = clocks(context - 1)
    head = model.vocab * model.hidden * float(weights.of("head").bytes) / BEAT_BYTES / config.channels
    prompt = (clocks(0)[1] + 4 * clocks(context // 2)[1] + step) / 6 - head + head / context
    roof = work.bytes / BEAT_BYTES / config.channels
    mbu = (work.bytes - work.vector_bytes) / BEAT_BYTES / config.channels / step
    return Accelerated(step, roof, {}, mbu, prompt, reason)
