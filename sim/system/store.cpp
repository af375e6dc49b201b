// Contents of all channels' memories: the sparse file in HEADRACE_STORE, mapped, channel after channel, 2^HEADRACE_STORE_BITS beats
// each. One call moves the beats of all channels that have one due.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {
constexpr size_t kBeat = 32;

class Store {
public:
    Store() {
        const char* path = std::getenv("HEADRACE_STORE");
        const char* bits = std::getenv("HEADRACE_STORE_BITS");
        if (!path || !bits) return;
        bits_ = std::atoi(bits);
        const int file = open(path, O_RDWR);
        struct stat status;
        if (file < 0 || fstat(file, &status) != 0) fail(path);
        bytes_ = status.st_size;
        void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
        if (memory == MAP_FAILED) fail(path);
        close(file);
        memory_ = static_cast<uint8_t*>(memory);
    }

    uint8_t* beat(unsigned channel, uint32_t beat) {
        const size_t offset = ((static_cast<size_t>(channel) << bits_) + beat) * kBeat;
        if (offset + kBeat > bytes_) {
            std::fprintf(stderr, "store: channel %u beat %u is outside %zu bytes\n", channel, beat, bytes_);
            std::exit(1);
        }
        return memory_ + offset;
    }

private:
    [[noreturn]] static void fail(const char* path) {
        std::perror(path);
        std::exit(1);
    }

    uint8_t* memory_ = nullptr;
    size_t bytes_ = 0;
    unsigned bits_ = 0;
};

Store store;
}  // namespace

// Arguments are packed vectors with channel 0 lowest: a bit, 32 bits and 256 bits a channel. Host and vectors are little-endian.
extern "C" void headrace_store(int channels, const uint32_t* read_valid, const uint32_t* read_beat, uint32_t* read_data,
                               const uint32_t* write_valid, const uint32_t* write_beat, const uint32_t* write_data) {
    for (int n = 0; n < channels; ++n) {
        if (*read_valid >> n & 1) std::memcpy(read_data + 8 * n, store.beat(n, read_beat[n]), kBeat);
        if (*write_valid >> n & 1) std::memcpy(store.beat(n, write_beat[n]), write_data + 8 * n, kBeat);
    }
}
