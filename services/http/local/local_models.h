// The models of this process, as the front sees them.
#ifndef PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_MODELS_H_
#define PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_MODELS_H_

#include <memory>
#include <string>
#include <vector>

#include "services/http/http_models.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

class LocalModels final : public HttpModels {
 public:
  // `registry` and `planner` outlive it. `planner` may be null.
  explicit LocalModels(ModelRegistry& registry,
                       PlannerQueries* planner = nullptr)
      : registry_(registry), planner_(planner) {}

  ByteBudget& messages() override { return registry_.messages(); }
  std::vector<ModelInfo> List() override { return registry_.List(); }
  Json Status(const std::string& state) override;
  std::shared_ptr<TextCall> NewTextCall(const HttpRoom& room,
                                        const TextDialect& dialect,
                                        HttpExchange exchange) override;
  bool waits_for_tokens() const override { return false; }
  absl::StatusOr<TokenAnswer> Tokenize(const v1::TokenizeRequest& request,
                                       const TokenCaller& caller) override;
  absl::StatusOr<TokenAnswer> Render(
      const v1::ApplyChatTemplateRequest& request,
      const TokenCaller& caller) override;
  absl::StatusOr<TokenAnswer> Detokenize(const v1::DetokenizeRequest& request,
                                         const TokenCaller& caller) override;
  PlannerQueries* planner() override { return planner_; }
  bool LoadFirst(const absl::Status& error, const OnLoaded& then) override;

 private:
  ModelRegistry& registry_;
  PlannerQueries* const planner_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_MODELS_H_
