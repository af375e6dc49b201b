// Runs a StreamBench until it is done and prints its counters, and the host's time, as JSON.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "Vtop.h"
#include "verilated.h"

int main(int argc, char** argv) {
    const unsigned long limit = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0;
    VerilatedContext context;
    Vtop top{&context};
    unsigned long clocks = 0;
    const auto tick = [&] {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
        ++clocks;
    };
    top.rst = 1;
    for (int i = 0; i < 4; ++i) tick();
    top.rst = 0;
    const auto start = std::chrono::steady_clock::now();
    while (!top.done && clocks < limit) tick();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf(
        "{\"done\": %d, \"simulated\": %lu, \"causes\": [%u, %u, %u, %u, %u, %u], \"errors\": %u, \"broken\": %llu, "
        "\"violations\": %u, \"refreshes\": %u, \"activates\": %u, \"reads\": %u, \"writes\": %u, \"seconds\": %.6f}\n",
        int(top.done), clocks, top.data_clocks, top.refresh_clocks, top.activate_clocks, top.turnaround_clocks,
        top.no_request_clocks, top.back_pressure_clocks, top.errors, static_cast<unsigned long long>(top.broken), top.violations, top.refreshes, top.activates, top.reads,
        top.writes, seconds.count());
    return 0;
}
