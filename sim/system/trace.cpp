// Commands of the channels and changes of their state in a window of clocks, counted from the first clock in which a program runs: records
// of 16 bytes in the file in HEADRACE_TRACE, for HEADRACE_TRACE_CLOCKS clocks from HEADRACE_TRACE_FROM on. Read by sim/trace/window.py.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {
enum Kind : uint16_t { kCommand, kState };

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

    void clock(bool running, int channels, const uint32_t* commands, const uint32_t* states) {
        started_ |= running;
        if (!file_ || !started_) return;
        const uint64_t now = clock_++;
        if (now < from_ || now >= until_) return;
        const bool first = now == from_;
        last_.resize(channels);
        for (int n = 0; n < channels; ++n) {
            if (commands[n]) add({now, static_cast<uint16_t>(n), kCommand, commands[n]});
            if (first || states[n] != last_[n]) add({now, static_cast<uint16_t>(n), kState, states[n]});
            last_[n] = states[n];
        }
    }

private:
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
    std::vector<uint32_t> last_;
};

Trace trace;
}  // namespace

extern "C" void headrace_trace(unsigned char running, int channels, const uint32_t* commands, const uint32_t* states) {
    trace.clock(running, channels, commands, states);
}
