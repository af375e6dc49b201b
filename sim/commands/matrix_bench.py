"""``headrace bench matrix``: one square matrix, streamed again and again through the whole design.

All passes have the same operand, so that none waits for another; contents are generated, and the golden model is not
run.
"""

from math import ceil

from firmware.errors import UserError
from firmware.layout import ModelShape, plan_layout
from firmware.traffic import step_traffic
from hw.isa import Format
from sim.build import toolchain
from sim.commands.shape_run import simulate_shape
from sim.report import Traffic, utilisation
from sim.roofline import predicted_clocks
from sim.roofline.devices import CLOCK_HZ
from sim.shape_plan import FEW

__all__ = ["matrix_layout", "run"]

WIDTH = 8192
"""Rows and columns, if the preset can hold them."""

PASSES = 255
"""At most; what the program's loop counts to."""

POSITION = 1


def matrix_layout(config, clocks):
    """The layout of passes that take *clocks* clocks or more at one beat a clock."""
    width = min(WIDTH, config.max_hidden)
    heads = width // config.max_head_dim
    if not heads or width % config.max_head_dim:
        raise UserError(f"max_hidden {config.max_hidden} of preset {config.name} is no multiple of max_head_dim "
                        f"{config.max_head_dim}: choose other sizes")

    def layout(passes):
        shape = ModelShape(width, heads, ceil(heads / config.max_group), config.max_head_dim, width, FEW,
                           passes, 2, {"o": Format.Q4_0, "head": Format.Q4_0}, part="matrix")
        return plan_layout(shape, config)
    return layout(min(PASSES, ceil(clocks / layout(1).shares["o"].beats)))


def run(config, console, clocks):
    """Figures of a run of *clocks* clocks or more, as a dict for JSON; progress on *console*."""
    toolchain()
    layout = matrix_layout(config, clocks)
    passes, width = layout.shape.layers, layout.shape.hidden
    result = simulate_shape(layout, (passes,), POSITION, 1, 0, console=console, trained=True)
    done = result["runs"][0]
    traffic = step_traffic(layout, POSITION)
    moved = 32 * done["causes"]["data"]
    shares = utilisation(Traffic(moved, traffic.model_bytes, traffic.code_bytes), done["causes"], done["clocks"],
                         config.channels)
    return {
        "preset": config.name, "overrides": config.changes(), "channels": config.channels, "rows": width,
        "columns": width, "weights": layout.shares["o"].format.name, "passes": passes, "contents": "generated",
        "golden": "not run", "clocks": done["clocks"], "bytes": moved,
        "bytes_per_second": CLOCK_HZ * moved / done["clocks"], "bus_busy": shares.bus_busy,
        "model_mbu": shares.model_mbu, "goodput": shares.goodput,
        "predicted_clocks": predicted_clocks(layout, POSITION, 1), "causes": done["causes"], "violations": 0,
        "host_seconds": result["host_seconds"],
        "clocks_per_host_second": result["clocks"] / result["host_seconds"]}
