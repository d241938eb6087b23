// Llama 2 and 3, Mistral, Mixtral, SmolLM2, TinyLlama, and whatever else is
// stored as the architecture llama.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kLlama = {
    .name = "llama",
    .models = "Llama 2 and 3, Mistral, Mixtral, SmolLM 2, TinyLlama",
    .config_types = {"llama", "mistral", "mixtral"},
    .checkpoint = {.norms = kNormsBefore},
    .biases = BiasRule::kOptional,
};

}  // namespace plimsoll::planner
