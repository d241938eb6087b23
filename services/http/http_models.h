// The models of a front. They run in this process or in workers.
#ifndef PLIMSOLL_SERVICES_HTTP_HTTP_MODELS_H_
#define PLIMSOLL_SERVICES_HTTP_HTTP_MODELS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "plimsoll/v1/tokenizer.pb.h"
#include "services/http/http_message.h"
#include "services/http/json.h"
#include "services/server/byte_budget.h"
#include "services/worker/models/model_info.h"

namespace plimsoll::services {

struct HttpRoom;
struct TextDialect;
class PlannerQueries;
class TextCall;

// The request that asks for tokens, and the bounds of the work for it.
struct TokenCaller {
  const HttpRequest& request;
  StopCheck stop;
  ByteBudget::Share& held;  // empty at first; may grow
};

// Ids, or the text of ids, and the number of tokens of a slot's context.
struct TokenAnswer {
  std::vector<int32_t> ids = {};
  std::string text = "";
  int64_t n_ctx = 0;
};

// Thread-safe.
class HttpModels {
 public:
  virtual ~HttpModels() = default;

  // Memory of requests and replies.
  virtual ByteBudget& messages() = 0;
  // All models, by name.
  virtual std::vector<ModelInfo> List() = 0;
  // The reply of /plimsoll/status. `state` is the word of /health.
  virtual Json Status(const std::string& state) = 0;

  // Makes the call that answers the request of `exchange`.
  virtual std::shared_ptr<TextCall> NewTextCall(const HttpRoom& room,
                                                const TextDialect& dialect,
                                                HttpExchange exchange) = 0;

  // Whether the three functions below wait for other processes. If so, the
  // server's thread does not call them.
  virtual bool waits_for_tokens() const = 0;
  // The ids of a text. Errors: those of the model's name and of Tokenize.
  virtual absl::StatusOr<TokenAnswer> Tokenize(
      const v1::TokenizeRequest& request, const TokenCaller& caller) = 0;
  // The ids of a conversation, as the model sees it. Errors: those of the
  // model's name and of FromChat.
  virtual absl::StatusOr<TokenAnswer> Render(
      const v1::ApplyChatTemplateRequest& request,
      const TokenCaller& caller) = 0;
  // The text of ids. Errors: those of the model's name and of Detokenize.
  virtual absl::StatusOr<TokenAnswer> Detokenize(
      const v1::DetokenizeRequest& request, const TokenCaller& caller) = 0;

  // The object that answers the planner's queries, or null.
  virtual PlannerQueries* planner() = 0;

  // Called with a handle that keeps a model loaded, or with the error of its
  // load.
  using OnLoaded =
      std::function<void(absl::StatusOr<std::shared_ptr<const void>>)>;
  // If `error` says that a model is not loaded, has it loaded and returns true;
  // `then` is called once, maybe at once. Returns false, without a call, for
  // any other error, or if no load can begin.
  virtual bool LoadFirst(const absl::Status& error, const OnLoaded& then) = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_HTTP_MODELS_H_
