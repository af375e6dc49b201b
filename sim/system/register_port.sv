// AXI4-Lite master that makes one register access when `request` changes, and then lets `done` follow it. The test sleeps
// until then, so it need not wake on every clock.
module register_port #(parameter int ADDRESS = 16) (
    input  logic               clk,
    input  logic               rst,
    input  logic               request,
    input  logic               write,
    input  logic [ADDRESS-1:0] address,
    input  logic [31:0]        data,
    output logic               done,
    output logic [31:0]        result,
    output logic [1:0]         response,

    output logic               awvalid,
    input  logic               awready,
    output logic [ADDRESS-1:0] awaddr,
    output logic               wvalid,
    input  logic               wready,
    output logic [31:0]        wdata,
    output logic [3:0]         wstrb,
    input  logic               bvalid,
    output logic               bready,
    input  logic [1:0]         bresp,
    output logic               arvalid,
    input  logic               arready,
    output logic [ADDRESS-1:0] araddr,
    input  logic               rvalid,
    output logic               rready,
    input  logic [31:0]        rdata,
    input  logic [1:0]         rresp
);
    logic busy;

    assign awaddr = address;
    assign araddr = address;
    assign wdata = data;
    assign wstrb = 4'hf;

    always_ff @(posedge clk) begin
        if (awready) awvalid <= 0;
        if (wready) wvalid <= 0;
        if (arready) arvalid <= 0;
        if (!busy && request != done) begin
            busy <= 1;
            awvalid <= write;
            wvalid <= write;
            bready <= write;
            arvalid <= !write;
            rready <= !write;
        end
        if (bvalid && bready || rvalid && rready) begin
            busy <= 0;
            done <= request;
            result <= rdata;
            response <= rready ? rresp : bresp;
            bready <= 0;
            rready <= 0;
        end
        if (rst) begin
            busy <= 0;
            done <= 0;
            awvalid <= 0;
            wvalid <= 0;
            bready <= 0;
            arvalid <= 0;
            rready <= 0;
        end
    end
endmodule
