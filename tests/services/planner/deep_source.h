// Models by their numbers alone, for requests.
#ifndef PLIMSOLL_TESTS_SERVICES_PLANNER_DEEP_SOURCE_H_
#define PLIMSOLL_TESTS_SERVICES_PLANNER_DEEP_SOURCE_H_

#include <cstdint>

#include "plimsoll/v1/planner.pb.h"

namespace plimsoll::services {

// A small model of so many layers.
inline v1::ModelSource DeepSource(uint32_t n_layers) {
  v1::ModelSource source;
  v1::Hyperparameters& numbers = *source.mutable_hyperparameters();
  numbers.set_architecture("llama");
  numbers.set_n_layers(n_layers);
  numbers.set_model_dim(64);
  numbers.set_n_heads(2);
  numbers.set_ffn_dim(64);
  numbers.set_vocab_size(1'000);
  numbers.set_n_ctx_train(64);
  return source;
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_PLANNER_DEEP_SOURCE_H_
