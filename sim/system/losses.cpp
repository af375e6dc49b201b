// What each channel's clocks were lost to, while the performance counters count: records of 16 bytes in the file in HEADRACE_LOSSES, without
// which nothing is written. Equal neighbouring clocks are one record. Read by sim/losses/log.py, where the words are explained.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {
enum Kind : uint16_t { kClocks = 0, kTaken = 1 << 14, kStart = 2 << 14, kStop = 3 << 14 };

struct Record {
    uint64_t clock;
    uint32_t clocks;
    uint16_t channel;
    uint16_t word;
};

class Losses {
public:
    Losses() {
        const char* path = std::getenv("HEADRACE_LOSSES");
        if (!path) return;
        file_ = std::fopen(path, "wb");
        if (!file_) fail(path);
    }
    ~Losses() {
        flush();
        if (file_ && std::fclose(file_) != 0) std::perror("losses");
    }

    void counting(uint64_t clock, bool on) {
        if (!file_) return;
        flush();
        write({clock, 0, 0, on ? kStart : kStop});
    }
    void lost(uint64_t clock, uint16_t channel, uint16_t word) {
        if (!file_) return;
        if (channel >= open_.size()) open_.resize(channel + 1);
        Record& run = open_[channel];
        if (run.clocks && run.word == word && run.clock + run.clocks == clock) {
            ++run.clocks;
            return;
        }
        if (run.clocks) write(run);
        run = {clock, 1, channel, word};
    }
    void taken(uint64_t clock, uint16_t channel) {
        if (!file_) return;
        if (channel < open_.size()) close(open_[channel]);
        write({clock, 0, channel, kTaken});
    }

private:
    void close(Record& run) {
        if (run.clocks) write(run);
        run.clocks = 0;
    }
    void flush() {
        for (Record& run : open_) close(run);
    }
    void write(const Record& record) {
        if (std::fwrite(&record, sizeof record, 1, file_) != 1) fail("losses");
    }
    [[noreturn]] static void fail(const char* what) {
        std::perror(what);
        std::exit(1);
    }

    std::FILE* file_ = nullptr;
    std::vector<Record> open_;
};

Losses losses;
}  // namespace

extern "C" void headrace_counting(long long clock, unsigned char on) { losses.counting(clock, on); }

extern "C" void headrace_lost(long long clock, int channel, int word) {
    losses.lost(clock, static_cast<uint16_t>(channel), static_cast<uint16_t>(word));
}

extern "C" void headrace_taken(long long clock, int channel) { losses.taken(clock, static_cast<uint16_t>(channel)); }
