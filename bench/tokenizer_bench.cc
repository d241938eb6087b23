// How fast is text tokenised, on one thread? Encodes files whole, over and
// over, and prints the best rate of each; with --ids, the token ids instead.
// bench/tokenizer.py makes the texts and runs tiktoken beside it.
//
// usage: tokenizer_bench [--ids] MODEL TEXT...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "bench/must.h"
#include "worker/model_file.h"
#include "worker/tokenizer.h"

namespace plimsoll::bench {
namespace {

// Of one text.
constexpr int kRounds = 3;

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
      const std::clock_t start = std::clock();  // of this process
      ids = Must(tokenizer->Encode(text, /*parse_special=*/false));
      best = std::min(
          best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    if (prints_ids) {
      for (const int32_t id : ids) std::printf("%d\n", id);
      continue;
    }
    const double seconds = std::max(best, 1e-6);
    std::printf("%s %zu %zu %.2f\n", path.c_str(), text.size(), ids.size(),
                static_cast<double>(text.size()) / seconds / 1e6);
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
