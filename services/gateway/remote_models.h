// The models of workers, as the front sees them.
#ifndef PLIMSOLL_SERVICES_GATEWAY_REMOTE_MODELS_H_
#define PLIMSOLL_SERVICES_GATEWAY_REMOTE_MODELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/gateway/remote_text_call.h"
#include "services/http/http_models.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {

class RemoteModels final : public HttpModels {
 public:
  // The longest time that a worker's tokenizer may take to answer.
  static constexpr absl::Duration kTokenTime = absl::Seconds(10);

  // The objects in `remote`, `messages` and `planner` must outlive it.
  // `planner` may be null.
  RemoteModels(const RemoteRoom& remote, ByteBudget& messages,
               PlannerQueries* planner = nullptr)
      : remote_(remote), messages_(messages), planner_(planner) {}

  ByteBudget& messages() override { return messages_; }
  std::vector<ModelInfo> List() override { return remote_.workers.Models(); }
  Json Status(const std::string& state) override;
  std::shared_ptr<TextCall> NewTextCall(const HttpRoom& room,
                                        const TextDialect& dialect,
                                        HttpExchange exchange) override;
  bool waits_for_tokens() const override { return true; }
  absl::StatusOr<TokenAnswer> Tokenize(const v1::TokenizeRequest& request,
                                       const TokenCaller& caller) override;
  absl::StatusOr<TokenAnswer> Render(
      const v1::ApplyChatTemplateRequest& request,
      const TokenCaller& caller) override;
  absl::StatusOr<TokenAnswer> Detokenize(const v1::DetokenizeRequest& request,
                                         const TokenCaller& caller) override;
  PlannerQueries* planner() override { return planner_; }
  // Workers load models, not the gateway.
  bool LoadFirst(const absl::Status& /*error*/,
                 const OnLoaded& /*then*/) override {
    return false;
  }

 private:
  // Sends `request` to a worker with the model, by `method` of a stub's
  // async(), and returns the answer. Errors: those of WorkerSet, of the worker
  // and of the caller's stop.
  template <typename Response, typename Request, typename Method>
  absl::StatusOr<Response> Ask(const ModelInfo& model, Request request,
                               const TokenCaller& caller, Method method);

  const RemoteRoom remote_;
  ByteBudget& messages_;
  PlannerQueries* const planner_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_REMOTE_MODELS_H_
