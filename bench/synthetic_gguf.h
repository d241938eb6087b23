// Writes GGUF files of Gemma 3's shape with random weights, to measure how fast
// a size of model runs on a machine that has no such model.
#ifndef PLIMSOLL_BENCH_SYNTHETIC_GGUF_H_
#define PLIMSOLL_BENCH_SYNTHETIC_GGUF_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/dtype.h"

namespace plimsoll {

// The 12B model's, some 7.5 GB in Q4_0.
struct SyntheticShape {
  // The control tokens and bytes that every vocabulary begins with.
  static constexpr int64_t kMinVocab = 262;

  int64_t layers = 48;
  int64_t dim = 3'840;
  int64_t heads = 16;
  int64_t kv_heads = 8;
  int64_t head_dim = 256;
  int64_t ffn = 15'360;
  int64_t vocab = 262'144;
  int64_t window = 1'024;  // five layers in six have it
  int64_t context = 131'072;
  DType type = DType::kQ4_0;  // type of matrices: Q4_0 or Q8_0
};

// Writes a model; the same seed gives the same file. The embedding, in Q8_0, is
// also the output.
// Errors: kInvalidArgument for a shape that is not of whole blocks, or another
// type; kUnknown if the file cannot be written.
absl::Status WriteSyntheticModel(const std::string& path,
                                 const SyntheticShape& shape, uint64_t seed);

}  // namespace plimsoll

#endif  // PLIMSOLL_BENCH_SYNTHETIC_GGUF_H_
