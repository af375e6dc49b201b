"""SystemVerilog round the accelerator for whole runs: clock, device models, store, register port and monitors.

The clock runs inside the simulator, and the only signals that Python sees are the ports of ``system``, so that a run
costs little more in cocotb than in a bare loop. One clock is two time units.
"""

from amaranth.hdl import Shape
from amaranth.lib.data import StructLayout

from hw.dram.causes import Cause
from hw.fetch.reader import Starved
from hw.interfaces import BEAT
from hw.slice.issue import Status

__all__ = ["LOST", "PORTS", "STATUS", "TOP", "flattened", "wrapper_text"]

TOP = "system"

PORTS = {
    "request": ("input", 1), "write": ("input", 1), "address": ("input", 16), "data": ("input", 32),
    "done": ("output", 1), "result": ("output", 32), "response": ("output", 2),
    "raised": ("output", 1), "clock": ("output", 64),
}
"""Ports of ``system`` and their widths: the register port (register_port.sv), the interrupt line, clocks since 0."""

STATUS = StructLayout({"cause": Cause, "starved": Starved, "slice": Status, "writer_idle": 1})
"""What a trace's states are packed of: members of :func:`hw.channel.channel_status_signature`."""

LOST = StructLayout({"cause": Cause, "starved": Starved, "slice": Status, "write_beat": 1})
"""What a clock in which no beat was read is packed of: ``starved`` if nothing was asked for, ``slice`` if the FIFO was
full, otherwise 0. A written beat has the cause DATA."""

RESET_CLOCKS = 8


def flattened(component):
    """(name, path, width, is input) of every port of *component*, named as in its Verilog."""
    for path, member, _ in component.signature.flatten(component):
        yield "__".join(str(part) for part in path), path, Shape.cast(member.shape).width, member.flow.value == "In"


def wrapper_text(accelerator, device, channels, lanes, memory_port=False, trace=False):
    """Text of module ``system``: *accelerator* (module ``headrace``) with a *device* (module ``lpddr5x``) a channel.

    With *memory_port* the AXI4 port is ports of ``system`` too, as ``axi__*``; otherwise it is idle. A master in Python
    samples and drives on ``axi_clock``, half a clock before the accelerator's edge, and what it drives is held until
    after that edge: Python wakes too late for the edge of a clock that is made in here. With *trace* commands and
    states go to trace.cpp.
    """
    ports = list(flattened(accelerator))
    device_ports = list(flattened(device))
    outer = [port for port in ports if memory_port and port[0].startswith("axi__")]
    ports = [port for port in ports if port not in outer]
    inner = {name for name, _, _, _ in ports if name.startswith(("axil__", "dfi__"))}
    declarations = [f"    {way} logic {_range(width)}{name}" for name, (way, width) in PORTS.items()]
    declarations += [f"    {'input' if is_input else 'output'} logic {_range(width)}{name}"
                     for name, _, width, is_input in outer]
    declarations += ["    output logic axi_clock"] * bool(outer)
    held = {name: f"held_{name}" if is_input else name for name, _, _, is_input in outer}
    lines = [f"module {TOP}(", ",\n".join(declarations), ");", HALVES if outer else PULSE,
             CLOCK.format(reset=RESET_CLOCKS),
             IMPORTS.format(valid=channels - 1, beats=32 * channels - 1, data=BEAT * channels - 1)]
    lines += [f"    logic {_range(width)}{name};" for name, _, width, _ in ports]
    lines += _instance("headrace", "accelerator", {name: held.get(name, name) for name, _, _, _ in ports + outer})
    lines += ["    assign axi_clock = !clk;"] * bool(outer)
    lines += [f"    logic {_range(width)}{held[name]}; always_ff @(posedge clk) {held[name]} <= rst ? 0 : {name};"
              for name, _, width, is_input in outer if is_input]
    lines += [f"    assign {name} = 0;" for name, _, _, is_input in ports if is_input and name not in inner]
    for channel in range(channels):
        nets = {}
        for name, path, width, _ in device_ports:
            if path[0] == "dfi":
                nets[name] = f"dfi__{channel}__{name.removeprefix('dfi__')}"
            else:
                nets[name] = f"device_{channel}__{name}"
                lines.append(f"    logic {_range(width)}{nets[name]};")
        lines += _instance("lpddr5x", f"device_{channel}", nets)
    lines += _register_port()
    lines += _store(channels)
    lines += _monitors(channels, lanes)
    lines += _losses(channels)
    if trace:
        lines += _trace(channels)
    lines.append("endmodule")
    return "\n".join(lines) + "\n"


HALVES = """
    logic clk = 0;
    always #1 clk = !clk;
"""

PULSE = """
    logic up = 0;
    logic down = 0;
    wire clk = up != down;
    always #2 begin
        up = !up;
        down <= up;
    end
"""
"""Both edges in one time step: half the rounds through the simulator's loop."""

CLOCK = """
    logic rst = 1;
    initial clock = 0;
    always_ff @(posedge clk) begin
        clock <= clock + 1;
        rst <= clock < {reset};
    end
"""

IMPORTS = """
    import "DPI-C" function void headrace_logit(int index, int unsigned bits);
    import "DPI-C" function void headrace_violation(longint clock, int channel, int rule, int bank);
    import "DPI-C" function void headrace_counting(longint clock, bit on);
    import "DPI-C" function void headrace_lost(longint clock, int channel, int word);
    import "DPI-C" function void headrace_taken(longint clock, int channel);
    import "DPI-C" function void headrace_store(
        int channels, bit [{valid}:0] read_valid, bit [{beats}:0] read_beat, output bit [{data}:0] read_data,
        input bit [{valid}:0] write_valid, input bit [{beats}:0] write_beat, input bit [{data}:0] write_data);
"""


def _range(width):
    return "" if width == 1 else f"[{width - 1}:0] "


def _instance(module, name, nets):
    connections = ", ".join(f".{port}({net})" for port, net in nets.items())
    return [f"    {module} {name}(.clk(clk), .rst(rst), {connections});"]


def _register_port():
    nets = {name: name for name in ("request", "write", "address", "data", "done", "result", "response")}
    for name in ("awvalid", "awready", "awaddr", "wvalid", "wready", "wdata", "wstrb", "bvalid", "bready", "bresp",
                 "arvalid", "arready", "araddr", "rvalid", "rready", "rdata", "rresp"):
        nets[name] = f"axil__{name}"
    return [*_instance("register_port", "registers", nets), "    assign axil__awprot = 0;",
            "    assign axil__arprot = 0;", "    assign raised = irq;"]


def _store(channels):
    """One call a clock at most, for all channels that have a beat due."""
    def joined(name, width=0):
        parts = [f"device_{channel}__store__{name}" for channel in reversed(range(channels))]
        return "{" + ", ".join(f"{width}'({part})" if width else part for part in parts) + "}"

    lines = [f"    bit [{BEAT * channels - 1}:0] read_data, fetched;"]
    lines += [f"    assign device_{n}__store__read_data = read_data[{BEAT * n} +: {BEAT}];" for n in range(channels)]
    arguments = ", ".join((joined("read_valid"), joined("read_beat", 32), "fetched", joined("write_valid"),
                           joined("write_beat", 32), joined("write_data")))
    return [*lines, "    always @(posedge clk)",
            f"        if (({joined('read_valid')} | {joined('write_valid')}) != 0) begin",
            f"            headrace_store({channels}, {arguments});", "            read_data <= fetched;", "        end"]


def _monitors(channels, lanes):
    """Taps that hold nothing up: logits as they come, and the end of the run at a broken rule."""
    lines = ["    always @(posedge clk) begin", "        if (logits__valid) begin"]
    lines += [f"            headrace_logit(32'(logits__index) + {n}, logits__values[{32 * n} +: 32]);"
              for n in range(lanes)]
    lines.append("        end")
    for channel in range(channels):
        violation = f"device_{channel}__violation__"
        lines += [f"        if ({violation}valid) begin",
                  f"            headrace_violation(clock, {channel}, 32'({violation}rule), 32'({violation}bank));",
                  "            $finish;", "        end"]
    return [*lines, "    end"]


def _losses(channels):
    """Calls in clocks in which a channel read no beat, and when its slice goes on to another record: few."""
    taken = Status["taken"].offset
    lines = ["    logic counted = 0;", "    always @(posedge clk) begin", "        counted <= counting;",
             "        if (counting != counted) headrace_counting(clock, counting);"]
    for n in range(channels):
        status = f"status__{n}__"
        word = (f"{{{status}write_beat, {status}cause == {Cause.BACK_PRESSURE.value} ? {status}slice : "
                f"{Status.size}'d0, {status}cause == {Cause.NO_REQUEST.value} ? {status}starved : 2'd0, "
                f"{status}cause}}")
        lines += [f"        if (counting && ({status}cause != 0 || {status}write_beat))",
                  f"            headrace_lost(clock, {n}, 32'({word}));",
                  f"        if ({status}slice[{taken}]) headrace_taken(clock, {n});"]
    return [*lines, "    end"]


def _trace(channels):
    """Packed words of 32 bits a channel: both command phases with their cs, the state, and levels of the FIFOs (16 bits
    each); one of the vector unit. See sim/trace/window.py."""
    commands, states, levels = [], [], []
    for n in reversed(range(channels)):
        pins, status = f"dfi__{n}__p", f"status__{n}__"
        phases = [f"{pins}{p}__cs, {pins}{p}__cs ? {pins}{p}__address : 14'd0" for p in (1, 0)]
        commands.append(f"32'({{{', '.join(phases)}}})")
        fields = [status + name for name in reversed([name for name, _ in STATUS])]
        states.append(f"32'({{{', '.join(fields)}}})")
        levels.append(f"16'({status}scale_level), 16'({status}data_level)")
    taken = ", ".join(f"status__{n}__slice[{Status['taken'].offset}]" for n in reversed(range(channels)))
    word = f"bit [{32 * channels - 1}:0]"
    return ['    import "DPI-C" function void headrace_trace(',
            f"        bit running, int channels, {word} commands, {word} states, {word} levels,",
            f"        bit [{channels - 1}:0] taken, int vector);",
            f"    always @(posedge clk) headrace_trace(running, {channels}, {{{', '.join(commands)}}},",
            f"        {{{', '.join(states)}}}, {{{', '.join(levels)}}}, {{{taken}}}, 32'(vector));"]
