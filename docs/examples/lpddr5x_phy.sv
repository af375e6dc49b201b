// Stand-in for the PHY of one channel, so that the examples are complete: no pads, answers zeros.
// A real one has these ports to the controller (docs/dfi.md) and pads of its own.

`default_nettype none

module lpddr5x_phy (
    input  logic clk,
    input  logic rst,
    input  logic [13:0] p0__address,
    input  logic p0__cs,
    input  logic [13:0] p1__address,
    input  logic p1__cs,
    input  logic wrdata_en,
    input  logic [255:0] wrdata,
    input  logic rddata_en,
    output logic rddata_valid,
    output logic [255:0] rddata,
    input  logic wck_en,
    input  logic [1:0] wck_toggle,
    input  logic init_start,
    output logic init_complete
);
    wire unused = &{1'b0, p0__address, p0__cs, p1__address, p1__cs, wrdata_en, wrdata, wck_en, wck_toggle};

    assign rddata = 256'd0;

    always_ff @(posedge clk) begin
        rddata_valid <= rddata_en & ~rst;
        init_complete <= init_start & ~rst;
    end
endmodule

`default_nettype wire
