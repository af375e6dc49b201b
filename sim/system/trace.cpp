// Commands of the channels, changes of their state and of the vector unit's, records that the slices take, and FIFO levels now and then, in a
// window of clocks, counted from the first clock in which a program runs: records of 16 bytes in the file in HEADRACE_TRACE, for HEADRACE_TRACE_CLOCKS clocks from HEADRACE_TRACE_FROM on. Read by sim/trace/window.py.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {
enum Kind : uint16_t { kCommand, kState, kTaken, kLevel, kVector };

constexpr uint64_t kLevelClocks = 16;  // between samples of the levels

struct Record {
    uint64_t clock;
    uint16_t channel;
    uint16_t kind;
    uint32_t value;
};

uint64_t number(const char* name) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : 0;
}

class Trace {
public:
    Trace() : from_(number("HEADRACE_TRACE_FROM")), until_(from_ + number("HEADRACE_TRACE_CLOCKS")) {
        const char* path = std::getenv("HEADRACE_TRACE");
        if (!path) return;
        file_ = std::fopen(path, "wb");
        if (!file_) fail(path);
    }
    ~Trace() {
        if (file_ && std::fclose(file_) != 0) std::perror("trace");
    }

    void clock(bool running, int channels, const uint32_t* commands, const uint32_t* states, const uint32_t* levels, const uint32_t* taken,
               uint32_t vector) {
        started_ |= running;
        if (!file_ || !started_) return;
        const uint64_t now = clock_++;
        if (now >= until_) return;
        const bool first = now == from_, inside = now >= from_, sampled = (now - from_) % kLevelClocks == 0;
        channels_.resize(channels);
        for (int n = 0; n < channels; ++n) {
            Channel& last = channels_[n];
            const auto put = [&](Kind kind, uint32_t value) {
                if (inside) add({now, static_cast<uint16_t>(n), kind, value});
            };
            if (first) put(kTaken, last.taken);
            if (commands[n]) put(kCommand, commands[n]);
            if (first || states[n] != last.state) put(kState, states[n]);
            if (first || (inside && sampled && levels[n] != last.level)) put(kLevel, last.level = levels[n]);
            if (taken[n / 32] >> n % 32 & 1) put(kTaken, ++last.taken);
            last.state = states[n];
        }
        if (first || (inside && vector != vector_)) add({now, 0, kVector, vector});
        vector_ = vector;
    }

private:
    struct Channel {
        uint32_t state = 0, level = 0, taken = 0;
    };

    void add(const Record& record) {
        if (std::fwrite(&record, sizeof record, 1, file_) != 1) fail("trace");
    }
    [[noreturn]] static void fail(const char* what) {
        std::perror(what);
        std::exit(1);
    }

    std::FILE* file_ = nullptr;
    bool started_ = false;
    uint64_t clock_ = 0;
    uint64_t from_, until_;
    uint32_t vector_ = 0;
    std::vector<Channel> channels_;
};

Trace trace;
}  // namespace

extern "C" void headrace_trace(unsigned char running, int channels, const uint32_t* commands, const uint32_t* states,
                               const uint32_t* levels, const uint32_t* taken, int vector) {
    trace.clock(running, channels, commands, states, levels, taken, vector);
}
