// A loaded model for calls that generate. A worker or the command line has
// loaded it.
#ifndef PLIMSOLL_SERVICES_GENERATION_SERVED_MODEL_H_
#define PLIMSOLL_SERVICES_GENERATION_SERVED_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/model_template.h"

namespace plimsoll::services {

class QuotaBook;

struct ServedModel {
  explicit operator bool() const { return engine != nullptr; }

  std::string name;
  worker::Engine* engine = nullptr;
  // If it is an error, the model has no built-in chat format: conversations are
  // rendered by its own template.
  absl::StatusOr<worker::ChatFormatChoice> chat_format =
      absl::UnimplementedError("no chat format");
  // The template of the file if there is no chat_format; null without one.
  std::shared_ptr<const worker::ModelTemplate> own_template = nullptr;
  // The model is not unloaded while a copy of this exists. Null if the model
  // outlives its calls anyway.
  std::shared_ptr<const void> use = nullptr;
  // The quotas of tenants. Outlives all calls; null if there are no quotas.
  QuotaBook* quotas = nullptr;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_SERVED_MODEL_H_
