// Makes a model's header from the config.json that comes with its safetensors,
// for plans without a GGUF file and for writing one.
#ifndef PLIMSOLL_SERVICES_SOURCES_CONFIG_JSON_H_
#define PLIMSOLL_SERVICES_SOURCES_CONFIG_JSON_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/architecture.h"
#include "services/sources/config_rotation.h"

namespace plimsoll::services {

inline constexpr int64_t kMaxConfigBytes = 1 << 20;

// Returns the header that a GGUF file of this model would have. Tensors have
// the type that the config names ("dtype", "torch_dtype"), or bf16. Only the
// text part of multimodal configs is read. The header has the vocabulary's
// size, but not its tokens.
// Errors: kInvalidArgument naming the key that is missing or wrong;
// kUnimplemented naming a model_type or quantisation that is not known.
absl::StatusOr<planner::GgufHeader> HeaderFromConfig(absl::string_view json);

// Everything in a model's GGUF file except its weights and its tokenizer.
struct ModelConfig {
  planner::GgufHeader header = {};  // without tensors
  const planner::Architecture* architecture = nullptr;
  std::vector<ConfigVector> vectors = {};
  bool is_tied = false;  // the output is the embedding table
};

// Returns the header of HeaderFromConfig, and the values that the model
// computes with.
// Errors: also those of AddComputedValues and of AddRotation.
absl::StatusOr<ModelConfig> ModelFromConfig(absl::string_view json);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_CONFIG_JSON_H_
