// Gives a model's header an MTP head.
#ifndef PLIMSOLL_TESTS_PLANNER_MTP_HEAD_H_
#define PLIMSOLL_TESTS_PLANNER_MTP_HEAD_H_

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "planner/gguf/header_numbers.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// Adds a head whose layer is like layer `like` to a header of `n_layers` layers
// that has its tensors. Other tensors than vectors are F16.
inline void AddMtpHead(int64_t n_layers, int64_t like, HeaderNumbers& numbers) {
  GgufHeader& header = numbers.header();
  const std::string from = absl::StrCat("blk.", like, ".");
  const std::string to = absl::StrCat("blk.", n_layers, ".");
  const int64_t dim = header.FindTensor("token_embd.weight")->ne[0];
  std::vector<GgufTensor> head;
  for (const GgufTensor& tensor : header.tensors) {
    if (!absl::StartsWith(tensor.name, from)) continue;
    head.push_back(tensor);
    head.back().name = absl::StrCat(to, tensor.name.substr(from.size()));
  }
  for (const char* norm : {"enorm", "hnorm", "shared_head_norm"}) {
    head.push_back({.name = absl::StrCat(to, "nextn.", norm, ".weight"),
                    .dtype = DType::kF32,
                    .n_dims = 1,
                    .ne = {dim, 1, 1, 1},
                    .offset = 0,
                    .bytes = dim * 4});
  }
  head.push_back({.name = absl::StrCat(to, "nextn.eh_proj.weight"),
                  .dtype = DType::kF16,
                  .n_dims = 2,
                  .ne = {2 * dim, dim, 1, 1},
                  .offset = 0,
                  .bytes = 2 * dim * dim * 2});
  header.tensors.insert(header.tensors.end(), head.begin(), head.end());
  numbers.Int("block_count", static_cast<uint64_t>(n_layers + 1))
      .Int("nextn_predict_layers", 1);
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_MTP_HEAD_H_
