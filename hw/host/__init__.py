"""What the host sees: registers on AXI4-Lite, memory on AXI4."""
