// The flags of `plimsoll what-if`, and the request that they make.
#ifndef PLIMSOLL_SERVICES_CLI_COMMANDS_WHAT_IF_REQUEST_H_
#define PLIMSOLL_SERVICES_CLI_COMMANDS_WHAT_IF_REQUEST_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/cli/flags/flags.h"
#include "services/cli/views/what_if_view.h"

namespace plimsoll::cli {

struct WhatIfFlags {
  std::string model;
  std::vector<ContextFlag> n_ctx;
  std::vector<int64_t> slots = {1, 2, 4, 8};
  std::vector<KvTypes> kv = {{}};
  std::vector<int64_t> n_ubatch = {512};
  std::vector<std::optional<DType>> weights = {std::nullopt};
  std::vector<int64_t> device_memory;
  std::vector<std::string> devices;
  std::optional<int64_t> max_inference_len;
  std::optional<GridAxis> rows;
  std::optional<GridAxis> columns;
  std::string svg;
  std::string output;
};

// Adds the flags that take lists, one for each axis.
void AddAxisFlags(CLI::App& app, WhatIfFlags* flags);

// The context 'max' means this number if the file is not on this machine. No
// model has a longer context.
inline constexpr int64_t kMostContext = std::numeric_limits<uint32_t>::max();

// Makes the request for `flags` without its source, and puts the labels of its
// axes into `answer`.
v1::WhatIfRequest ToRequest(const WhatIfFlags& flags, int64_t n_ctx_train,
                            GridAnswer& answer);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_COMMANDS_WHAT_IF_REQUEST_H_
