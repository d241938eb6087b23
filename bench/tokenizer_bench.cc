// How fast is text tokenised, on one thread? Encodes files whole, over and
// over, and prints the best rate of each and the longest time for which the
// stop check is not asked; with --ids, the token ids instead.
// bench/tokenizer.py makes the texts and runs tiktoken beside it.
//
// usage: tokenizer_bench [--ids] MODEL TEXT...
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bench/must.h"
#include "worker/device/model_file.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::bench {
namespace {

// How often one text is encoded.
constexpr int kRounds = 3;

// The longest time, in milliseconds, for which encoding `text` does not ask
// whether it should go on.
double LongestGapMs(const worker::Tokenizer& tokenizer,
                    const std::string& text) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point asked = Clock::now();
  Clock::duration longest = Clock::duration::zero();
  const auto ask = [&] {
    const Clock::time_point now = Clock::now();
    longest = std::max(longest, now - std::exchange(asked, now));
    return absl::OkStatus();
  };
  Must(tokenizer.Encode(text, worker::ParseSpecial::kNo, ask));
  ask().IgnoreError();
  return std::chrono::duration<double, std::milli>(longest).count();
}

int Main(const char* model, bool prints_ids,
         const std::vector<std::string>& paths) {
  const auto file = Must(worker::ModelFile::Open(model));
  const auto tokenizer = Must(worker::LoadTokenizer(file->header(), *file));
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    std::vector<int32_t> ids;
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < (prints_ids ? 1 : kRounds); ++round) {
      const std::clock_t start = std::clock();  // this process's CPU time
      ids = Must(tokenizer->Encode(text, worker::ParseSpecial::kNo));
      best = std::min(
          best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    if (prints_ids) {
      for (const int32_t id : ids) std::printf("%d\n", id);
      continue;
    }
    double gap_ms = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      gap_ms = std::min(gap_ms, LongestGapMs(*tokenizer, text));
    }
    const double seconds = std::max(best, 1e-6);
    std::printf("%s %zu %zu %.2f %.2f\n", path.c_str(), text.size(), ids.size(),
                static_cast<double>(text.size()) / seconds / 1e6, gap_ms);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  const bool prints_ids = argc > 1 && std::string_view(argv[1]) == "--ids";
  const int first = prints_ids ? 2 : 1;
  if (argc - first >= 2) {
    return plimsoll::bench::Main(argv[first], prints_ids,
                                 {argv + first + 1, argv + argc});
  }
  std::fprintf(stderr, "usage: tokenizer_bench [--ids] MODEL TEXT...\n");
  return 2;
}
