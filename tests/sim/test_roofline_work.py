"""Bytes, operations and bounds against published figures, and devices' ridge points."""

import csv
from pathlib import Path

import pytest

from hw.config import preset
from sim.catalogue import find_model, model_names
from sim.roofline.devices import DEVICES, preset_device
from sim.roofline.work import decode_work, prefill_work, resident_bytes
from sim.weight_types import KV8, parse_weights, weight_type

ROWS = list(csv.DictReader((Path(__file__).parent / "data" / "reference_values.csv").read_text().splitlines()))
BF16 = parse_weights("BF16")
BANDWIDTHS = {"Bertha500 546GB/s": 546e9, "Bertha500 @90%": 0.9 * 546e9, "DGX Spark": 273e9, "H100": 3350e9}


def work(model, **options):
    return decode_work(model, 2048, weight_type("BF16"), weights=BF16, **options)


def figure(model, quantity):
    """(value, decimals) of a row of the reference."""
    if quantity.startswith("tok_s_bound_B1_ctx2048_bf16"):
        return work(model).tokens_per_second(BANDWIDTHS[quantity.split("[")[1].rstrip("]")]), 2
    match quantity:
        case "params_total":
            return model.parameters, 0
        case "params_active_incl_embed":
            return model.active_parameters, 0
        case "params_streamed_per_decode_step_B1":
            return model.streamed_parameters, 0
        case "weight_GB_streamed_bf16_B1":
            return (work(model).weight_bytes + work(model).vector_bytes) / 1e9, 3
        case "matmul_FLOPs_per_token":
            return work(model).matrix_operations, 0
        case "kv_bytes_per_token_bf16":
            return work(model).kv_written_bytes, 0
        case "kv_GiB_per_seq_128Ki_bf16":
            return decode_work(model, 128 * 1024, weight_type("BF16")).kv_read_bytes / 2**30, 3
    raise ValueError(quantity)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']} {row['quantity']}")
def test_reference_value(row):
    value, decimals = figure(find_model(row["model"].removesuffix("(text)")), row["quantity"])
    assert round(value, decimals) == float(row["value"])


def test_the_whole_reference_is_there():
    assert len(ROWS) == 93


def test_ridge_points_are_peak_operations_over_peak_bytes():
    ridges = {device.name: device.ridge for device in DEVICES}
    assert round(ridges["H100 SXM"]) == 295
    assert round(ridges["DGX Spark GB10"]) == 458
    assert ridges["Apple M4 Max"] == pytest.approx(31.5, abs=0.1)
    h100 = DEVICES[0]
    assert h100.attainable(1) == h100.bandwidth
    assert h100.attainable(10_000) == h100.operations
    assert h100.attainable(h100.ridge) == pytest.approx(h100.operations)


def test_bertha500_has_546_gb_a_second():
    device = preset_device(preset("bertha500"))
    assert device.bandwidth == pytest.approx(546.1e9, rel=1e-3)
    # A beat a clock and channel of 32 bytes meets 8 rows of 32 multipliers, two operations each.
    assert device.ridge == 16


def test_smollm2_as_stored():
    step = decode_work(find_model("SmolLM2-135M"), 0, KV8)
    assert step.weight_bytes == 66_355_200 + 30_081_024
    assert step.kv_written_bytes == 30 * 3 * 2 * 66
    assert step.intensity == pytest.approx(2 * 134_479_872 / 96_700_000, rel=0.01)


def test_batch_shares_weights_but_not_the_cache():
    model = find_model("Llama-3.1-8B")
    one, eight = work(model), work(model, batch=8)
    assert eight.weight_bytes == one.weight_bytes and eight.vector_bytes == one.vector_bytes
    assert eight.kv_bytes == 8 * one.kv_bytes and eight.operations == 8 * one.operations
    assert one.tokens_per_second(546e9) < eight.tokens_per_second(546e9) < 8 * one.tokens_per_second(546e9)


def test_a_batch_reads_more_experts():
    model = find_model("Mixtral-8x7B")
    # of 8 experts a second token adds 2 x 6 / 8 in each layer
    assert work(model, batch=2).weight_bytes - work(model).weight_bytes == 32 * 1.5 * 3 * 14336 * 4096 * 2
    assert work(model, batch=1000).weight_bytes < 2 * model.parameters


def test_prompt_is_bound_by_arithmetic_on_every_device():
    model = find_model("Llama-3.1-8B")
    prompt = prefill_work(model, 4096, KV8)
    assert prompt.operations == 4096 * (2 * 7_504_658_432 - model.head_operations) + model.head_operations + (
        4096 * 4097 // 2 * 32 * model.score_operations)
    for device in DEVICES:
        assert prompt.intensity > device.ridge
        assert prompt.tokens_per_second(device.bandwidth, device.operations) == pytest.approx(
            4096 * device.operations / prompt.operations)


def test_windows_bound_the_prompt():
    model = find_model("Gemma-3-4B")
    one_by_one = sum(model.cached_tokens(n + 1) for n in range(3000)) * model.score_operations
    assert prefill_work(model, 3000, KV8).attention_operations == one_by_one


@pytest.mark.parametrize("name", model_names())
def test_prompt_of_one_token_is_a_step_without_cache(name):
    model = find_model(name)
    prompt, step = prefill_work(model, 1, KV8), decode_work(model, 0, KV8)
    assert (prompt.bytes, prompt.operations) == (step.bytes, step.operations)


def test_resident_bytes():
    assert resident_bytes(find_model("Llama-2-7B"), 0, KV8, weights=BF16) == 2 * 6_738_415_616
    model = find_model("Llama-3.1-70B")
    cache = resident_bytes(model, 1000, KV8, batch=2) - resident_bytes(model, 0, KV8)
    assert cache == 2 * 1000 * 80 * 8 * 2 * 132
