"""A block between registers, so that it can be placed with four pins and each of its paths is timed."""

__all__ = ["HARNESS", "bits", "harness"]

HARNESS = "harness"
"""Name of the module around the block; the block is ``block`` in it."""

_TEXT = """\
module {harness} (input clk, input rst, input serial, output sum);
    reg [{inputs}:0] stimulus;
    wire [{outputs}:0] answer;
    reg [{outputs}:0] caught, chain;
    always @(posedge clk) begin
        stimulus <= {{stimulus, serial}};
        caught <= answer;
        chain <= caught ^ {{chain, serial}};
    end
    assign sum = chain[{outputs}];
    {module} block (
{ports}
    );
endmodule
"""


def bits(block):
    """(input bits, output bits) of *block* that the harness has registers for."""
    return tuple(sum(port.width for port in block.ports if port.direction == way and port.name not in ("clk", "rst"))
                 for way in ("input", "output"))


def harness(block):
    """Verilog around *block*: inputs from a shift register, outputs to registers that are folded into one pin.

    Each input bit is a register's output and each output bit a register's input; ``rst`` is a pin.
    """
    ports, low = [], {"input": 0, "output": 0}
    source = {"input": "stimulus", "output": "answer"}
    for port in block.ports:
        value = port.name
        if port.name not in ("clk", "rst"):
            first = low[port.direction]
            value = f"{source[port.direction]}[{first + port.width - 1}:{first}]"
            low[port.direction] += port.width
        ports.append(f"        .\\{port.name} ({value})")
    inputs, outputs = bits(block)
    return _TEXT.format(harness=HARNESS, module=block.module, ports=",\n".join(ports), inputs=max(inputs, 1) - 1,
                        outputs=max(outputs, 1) - 1)
