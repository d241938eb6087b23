// Writes the header of a GGUF file, version 3.
#ifndef PLIMSOLL_PLANNER_GGUF_GGUF_WRITER_H_
#define PLIMSOLL_PLANNER_GGUF_GGUF_WRITER_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_header.h"

namespace plimsoll::planner {

// Collects values and tensors, in the order of the calls. It checks nothing:
// use ReadGgufHeader to check the written header.
class GgufWriter {
 public:
  // An array is written with the elements that `numbers` has.
  void Add(absl::string_view key, const GgufValue& value);
  void AddStrings(absl::string_view key, std::span<const std::string> values);
  void AddFloats(absl::string_view key, std::span<const float> values);
  void AddInt32s(absl::string_view key, std::span<const int32_t> values);
  void AddTensor(const GgufTensor& tensor);

  // The header's bytes up to the end of the tensor table, without padding.
  std::string Finish() const;

 private:
  void BeginValue(absl::string_view key, GgufType type);
  void BeginArray(absl::string_view key, GgufType type, size_t n);

  std::string metadata_;
  std::string tensors_;
  uint64_t n_metadata_ = 0;
  uint64_t n_tensors_ = 0;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_GGUF_WRITER_H_
