// Writes the header of a model without a file: its numbers, under the keys of a
// GGUF file.
#ifndef PLIMSOLL_PLANNER_GGUF_HEADER_NUMBERS_H_
#define PLIMSOLL_PLANNER_GGUF_HEADER_NUMBERS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::planner {

// Holds a header without tensors; AddTensors adds them. The header has the
// vocabulary's counts, not its tokens. Keys are given without the
// architecture's prefix.
class HeaderNumbers {
 public:
  explicit HeaderNumbers(absl::string_view architecture)
      : prefix_(absl::StrCat(architecture, ".")) {
    header_.version = 3;
    header_.alignment = 32;
    header_.metadata["general.architecture"] = {GgufType::kString,
                                                std::string(architecture)};
    header_.metadata["tokenizer.ggml.model"] = {GgufType::kString,
                                                std::string("no_vocab")};
    for (const char* key :
         {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"}) {
      Float(key, 1e-6);
    }
  }

  // Readers of files expect 32 bits where they are enough.
  HeaderNumbers& Int(absl::string_view key, uint64_t value) {
    const bool is_short = value <= std::numeric_limits<uint32_t>::max();
    return Set(key, {is_short ? GgufType::kU32 : GgufType::kU64, value});
  }
  HeaderNumbers& Float(absl::string_view key, double value) {
    return Set(key, {GgufType::kF32, value});
  }
  HeaderNumbers& Text(absl::string_view key, absl::string_view value) {
    return Set(key, {GgufType::kString, std::string(value)});
  }
  HeaderNumbers& List(absl::string_view key, GgufType type,
                      std::vector<double> values) {
    const auto n = static_cast<int64_t>(values.size());
    return Set(key,
               {GgufType::kArray, GgufArray{type, n, 0, 0, std::move(values)}});
  }

  GgufHeader& header() { return header_; }

 private:
  HeaderNumbers& Set(absl::string_view key, GgufValue value) {
    header_.metadata[absl::StrCat(prefix_, key)] = std::move(value);
    return *this;
  }

  std::string prefix_;
  GgufHeader header_ = {};
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_HEADER_NUMBERS_H_
