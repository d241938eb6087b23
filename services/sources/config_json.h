// A model's header from the config.json that its safetensors come with, for
// plans without a GGUF file.
#ifndef PLIMSOLL_SERVICES_SOURCES_CONFIG_JSON_H_
#define PLIMSOLL_SERVICES_SOURCES_CONFIG_JSON_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::services {

inline constexpr int64_t kMaxConfigBytes = 1 << 20;

// The header that a GGUF file of this model would have, its tensors in the
// types that the config names ("dtype", "torch_dtype"; bf16 where it names
// none). Multimodal configs are read for their text part. The vocabulary is
// counted, not known.
// Errors: kInvalidArgument naming the key that is missing or wrong;
// kUnimplemented naming a model_type or quantisation that is not known.
absl::StatusOr<planner::GgufHeader> HeaderFromConfig(absl::string_view json);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_CONFIG_JSON_H_
