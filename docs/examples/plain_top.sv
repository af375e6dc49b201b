// The accelerator of preset tiny (two channels) in a Verilog design: registers, memory port and interrupt to the host,
// a PHY for each channel. `headrace verilog --preset tiny -o build/verilog` writes the modules; manifest.json there has
// the ports of any other preset.

`default_nettype none

module plain_top (
    input  logic clk,  // the controllers' clock: CK / 2
    input  logic rst,  // synchronous
    output logic irq,

    // registers: AXI4-Lite, 32 bits (docs/host.md, docs/registers.md)
    input  logic [15:0] s_axil_awaddr,
    input  logic [2:0] s_axil_awprot,
    input  logic s_axil_awvalid,
    output logic s_axil_awready,
    input  logic [31:0] s_axil_wdata,
    input  logic [3:0] s_axil_wstrb,
    input  logic s_axil_wvalid,
    output logic s_axil_wready,
    output logic [1:0] s_axil_bresp,
    output logic s_axil_bvalid,
    input  logic s_axil_bready,
    input  logic [15:0] s_axil_araddr,
    input  logic [2:0] s_axil_arprot,
    input  logic s_axil_arvalid,
    output logic s_axil_arready,
    output logic [31:0] s_axil_rdata,
    output logic [1:0] s_axil_rresp,
    output logic s_axil_rvalid,
    input  logic s_axil_rready,

    // memory of all channels: AXI4, 256 bits, INCR bursts (docs/host.md)
    input  logic [3:0] s_axi_awid,
    input  logic [39:0] s_axi_awaddr,
    input  logic [7:0] s_axi_awlen,
    input  logic [2:0] s_axi_awsize,
    input  logic [1:0] s_axi_awburst,
    input  logic s_axi_awvalid,
    output logic s_axi_awready,
    input  logic [255:0] s_axi_wdata,
    input  logic [31:0] s_axi_wstrb,
    input  logic s_axi_wlast,
    input  logic s_axi_wvalid,
    output logic s_axi_wready,
    output logic [3:0] s_axi_bid,
    output logic [1:0] s_axi_bresp,
    output logic s_axi_bvalid,
    input  logic s_axi_bready,
    input  logic [3:0] s_axi_arid,
    input  logic [39:0] s_axi_araddr,
    input  logic [7:0] s_axi_arlen,
    input  logic [2:0] s_axi_arsize,
    input  logic [1:0] s_axi_arburst,
    input  logic s_axi_arvalid,
    output logic s_axi_arready,
    output logic [3:0] s_axi_rid,
    output logic [255:0] s_axi_rdata,
    output logic [1:0] s_axi_rresp,
    output logic s_axi_rlast,
    output logic s_axi_rvalid,
    input  logic s_axi_rready
);
    wire [13:0] dfi_p0__address [0:1];
    wire dfi_p0__cs [0:1];
    wire [13:0] dfi_p1__address [0:1];
    wire dfi_p1__cs [0:1];
    wire dfi_wrdata_en [0:1];
    wire [255:0] dfi_wrdata [0:1];
    wire dfi_rddata_en [0:1];
    wire dfi_rddata_valid [0:1];
    wire [255:0] dfi_rddata [0:1];
    wire dfi_wck_en [0:1];
    wire [1:0] dfi_wck_toggle [0:1];
    wire dfi_init_start [0:1];
    wire dfi_init_complete [0:1];

    /* verilator lint_off PINMISSING */
    headrace accelerator (  // its taps for counters outside (logits, running, status and so on) are left open
        .clk(clk), .rst(rst), .irq(irq), .axil__awaddr(s_axil_awaddr), .axil__awprot(s_axil_awprot),
        .axil__awvalid(s_axil_awvalid), .axil__awready(s_axil_awready), .axil__wdata(s_axil_wdata),
        .axil__wstrb(s_axil_wstrb), .axil__wvalid(s_axil_wvalid), .axil__wready(s_axil_wready),
        .axil__bresp(s_axil_bresp), .axil__bvalid(s_axil_bvalid), .axil__bready(s_axil_bready),
        .axil__araddr(s_axil_araddr), .axil__arprot(s_axil_arprot), .axil__arvalid(s_axil_arvalid),
        .axil__arready(s_axil_arready), .axil__rdata(s_axil_rdata), .axil__rresp(s_axil_rresp),
        .axil__rvalid(s_axil_rvalid), .axil__rready(s_axil_rready), .axi__awid(s_axi_awid),
        .axi__awaddr(s_axi_awaddr), .axi__awlen(s_axi_awlen), .axi__awsize(s_axi_awsize),
        .axi__awburst(s_axi_awburst), .axi__awvalid(s_axi_awvalid), .axi__awready(s_axi_awready),
        .axi__wdata(s_axi_wdata), .axi__wstrb(s_axi_wstrb), .axi__wlast(s_axi_wlast), .axi__wvalid(s_axi_wvalid),
        .axi__wready(s_axi_wready), .axi__bid(s_axi_bid), .axi__bresp(s_axi_bresp), .axi__bvalid(s_axi_bvalid),
        .axi__bready(s_axi_bready), .axi__arid(s_axi_arid), .axi__araddr(s_axi_araddr), .axi__arlen(s_axi_arlen),
        .axi__arsize(s_axi_arsize), .axi__arburst(s_axi_arburst), .axi__arvalid(s_axi_arvalid),
        .axi__arready(s_axi_arready), .axi__rid(s_axi_rid), .axi__rdata(s_axi_rdata), .axi__rresp(s_axi_rresp),
        .axi__rlast(s_axi_rlast), .axi__rvalid(s_axi_rvalid), .axi__rready(s_axi_rready),
        .dfi__0__p0__address(dfi_p0__address[0]), .dfi__0__p0__cs(dfi_p0__cs[0]),
        .dfi__0__p1__address(dfi_p1__address[0]), .dfi__0__p1__cs(dfi_p1__cs[0]),
        .dfi__0__wrdata_en(dfi_wrdata_en[0]), .dfi__0__wrdata(dfi_wrdata[0]), .dfi__0__rddata_en(dfi_rddata_en[0]),
        .dfi__0__rddata_valid(dfi_rddata_valid[0]), .dfi__0__rddata(dfi_rddata[0]), .dfi__0__wck_en(dfi_wck_en[0]),
        .dfi__0__wck_toggle(dfi_wck_toggle[0]), .dfi__0__init_start(dfi_init_start[0]),
        .dfi__0__init_complete(dfi_init_complete[0]), .dfi__1__p0__address(dfi_p0__address[1]),
        .dfi__1__p0__cs(dfi_p0__cs[1]), .dfi__1__p1__address(dfi_p1__address[1]), .dfi__1__p1__cs(dfi_p1__cs[1]),
        .dfi__1__wrdata_en(dfi_wrdata_en[1]), .dfi__1__wrdata(dfi_wrdata[1]), .dfi__1__rddata_en(dfi_rddata_en[1]),
        .dfi__1__rddata_valid(dfi_rddata_valid[1]), .dfi__1__rddata(dfi_rddata[1]), .dfi__1__wck_en(dfi_wck_en[1]),
        .dfi__1__wck_toggle(dfi_wck_toggle[1]), .dfi__1__init_start(dfi_init_start[1]),
        .dfi__1__init_complete(dfi_init_complete[1])
    );
    /* verilator lint_on PINMISSING */

    for (genvar channel = 0; channel < 2; channel = channel + 1) begin : memory
        lpddr5x_phy phy (
            .clk(clk), .rst(rst),
            .p0__address(dfi_p0__address[channel]),
            .p0__cs(dfi_p0__cs[channel]),
            .p1__address(dfi_p1__address[channel]),
            .p1__cs(dfi_p1__cs[channel]),
            .wrdata_en(dfi_wrdata_en[channel]),
            .wrdata(dfi_wrdata[channel]),
            .rddata_en(dfi_rddata_en[channel]),
            .rddata_valid(dfi_rddata_valid[channel]),
            .rddata(dfi_rddata[channel]),
            .wck_en(dfi_wck_en[channel]),
            .wck_toggle(dfi_wck_toggle[channel]),
            .init_start(dfi_init_start[channel]),
            .init_complete(dfi_init_complete[channel])
        );
    end
endmodule

`default_nettype wire
