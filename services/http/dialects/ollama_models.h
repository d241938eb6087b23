// The replies of Ollama's paths about models.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_MODELS_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_MODELS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "services/http/http_message.h"
#include "services/http/text_call.h"
#include "services/worker/models/model_info.h"

namespace plimsoll::services {

// /api/tags: all models. `created_s` is the Unix time that the reply gives for
// them.
HttpResponse ListOllamaModels(const std::vector<ModelInfo>& models,
                              int64_t created_s);

// /api/ps: the loaded models.
HttpResponse ListOllamaLoaded(const std::vector<ModelInfo>& models,
                              int64_t created_s);

// /api/version: the version of this build.
HttpResponse OllamaVersion(const std::vector<ModelInfo>& models,
                           int64_t created_s);

// /api/show: one model, which the body names.
void AnswerOllamaShow(const HttpRoom& room, HttpRequest request,
                      std::shared_ptr<HttpReply> reply);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_MODELS_H_
