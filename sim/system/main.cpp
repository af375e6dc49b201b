// One program, two ways to run the same model: cocotb's loop, or (--bare REPLAY) a loop without VPI or Python that repeats the
// register accesses of an earlier run and prints clocks and seconds.
#define main cocotb_main
#include COCOTB_MAIN
#undef main

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {
class Bare {
public:
    explicit Bare(const char* replay) : accesses_(replay) {}

    int run() {
        if (!accesses_) return fail("cannot read the replay");
        top_.request = 0;
        top_.eval();
        const auto start = std::chrono::steady_clock::now();
        std::string what;
        while (accesses_ >> what) {
            unsigned long long address = 0, data = 0;
            if (what == "write") {
                accesses_ >> address >> data;
                access(true, address, data);
            } else if (what == "read") {
                accesses_ >> address;
                access(false, address, 0);
            } else if (what == "interrupt") {
                while (!top_.raised && step()) {}
            } else if (what == "until") {
                accesses_ >> data;
                while (top_.clock < data && step()) {}
            } else {
                return fail("unknown word in the replay");
            }
            if (Verilated::gotFinish()) return fail("the model ended the run");
        }
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        std::printf("{\"clocks\": %llu, \"seconds\": %.3f}\n", static_cast<unsigned long long>(top_.clock), seconds.count());
        top_.final();
        return 0;
    }

private:
    static int fail(const char* why) {
        std::fprintf(stderr, "bare run: %s\n", why);
        return 1;
    }

    bool step() {
        if (Verilated::gotFinish() || !top_.eventsPending()) return false;
        main_time = top_.nextTimeSlot();
        top_.eval();
        return true;
    }

    void access(bool write, unsigned address, unsigned data) {
        top_.write = write;
        top_.address = address;
        top_.data = data;
        top_.request = !top_.request;
        do {
            if (!step()) return;
        } while (top_.done != top_.request);
    }

    std::ifstream accesses_;
    Vtop top_;
};
}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    if (argc > 2 && std::strcmp(argv[1], "--bare") == 0) {
        return std::make_unique<Bare>(argv[2])->run();
    }
    return cocotb_main(argc, argv);
}
