// What monitors tell of a run: violations as lines of JSON on the descriptor in HEADRACE_EVENTS, logits as binary32 in the file
// in HEADRACE_LOGITS, those below HEADRACE_VOCABULARY. Without these variables nothing is written (a broken rule is then told on stderr).
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace {
class Logits {
public:
    Logits() {
        const char* path = std::getenv("HEADRACE_LOGITS");
        const char* vocabulary = std::getenv("HEADRACE_VOCABULARY");
        if (!path || !vocabulary) return;
        vocabulary_ = std::atoi(vocabulary);
        file_ = std::fopen(path, "wb");
        if (!file_) {
            std::perror(path);
            std::exit(1);
        }
    }
    ~Logits() {
        if (file_) std::fclose(file_);
    }
    void add(int index, unsigned bits) {
        if (file_ && index < vocabulary_ && std::fwrite(&bits, sizeof bits, 1, file_) != 1) {
            std::perror("logits");
            std::exit(1);
        }
    }

private:
    std::FILE* file_ = nullptr;
    int vocabulary_ = 0;
};

Logits logits;
}  // namespace

extern "C" void headrace_logit(int index, unsigned bits) { logits.add(index, bits); }

extern "C" void headrace_violation(long long clock, int channel, int rule, int bank) {
    const char* descriptor = std::getenv("HEADRACE_EVENTS");
    dprintf(descriptor ? std::atoi(descriptor) : STDERR_FILENO,
            "{\"event\": \"violation\", \"clock\": %lld, \"channel\": %d, \"rule\": %d, \"bank\": %d}\n", clock, channel, rule, bank);
}
