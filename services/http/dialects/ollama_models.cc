#include "services/http/dialects/ollama_models.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "services/host/clock.h"
#include "services/http/dialects/ollama_reply.h"
#include "services/http/json.h"
#include "services/http/json_call.h"

namespace plimsoll::services {
namespace {

// Clients cut digests, so there has to be one; files are not hashed.
constexpr size_t kDigestChars = 64;
// When a model expires that is not unloaded.
constexpr char kNever[] = "9999-12-31T23:59:59Z";

Json Details(const ModelInfo& model) {
  const std::string family =
      model.ready.has_value() ? model.ready->architecture : "";
  Json json;
  json["parent_model"] = "";
  json["format"] = "gguf";
  json["family"] = family;
  json["families"] = Json::array({family});
  json["parameter_size"] = "";
  json["quantization_level"] = "";
  return json;
}

Json Named(const ModelInfo& model, int64_t bytes) {
  Json json;
  json["name"] = model.name;
  json["model"] = model.name;
  json["size"] = bytes;
  json["digest"] = std::string(kDigestChars, '0');
  json["details"] = Details(model);
  return json;
}

// When the model is unloaded if nobody uses it.
std::string ExpiryOf(const ModelInfo& model) {
  if (model.is_pinned || model.keep_alive == absl::InfiniteDuration()) {
    return kNever;
  }
  const absl::Time now = BootTime();
  const absl::Time last_use = model.ready->idle_since.value_or(now);
  return OllamaTime(absl::Now() + (last_use + model.keep_alive - now));
}

Json EmptyList() {
  Json list;
  list["models"] = Json::array();
  return list;
}

Json Show(const ModelInfo& model) {
  Json json;
  json["modelfile"] = "";
  json["parameters"] = "";
  json["template"] = "";
  json["details"] = Details(model);
  json["model_info"] = Json::object();
  json["capabilities"] = Json::array({"completion"});
  if (!model.ready.has_value()) return json;
  const ReadyModel& ready = *model.ready;
  json["parameters"] = absl::StrCat("num_ctx ", ready.n_ctx);
  Json& info = json["model_info"];
  info["general.architecture"] = ready.architecture;
  info["general.name"] = ready.display_name;
  info[absl::StrCat(ready.architecture, ".context_length")] = ready.n_ctx_train;
  if (ready.has_tools) json["capabilities"].push_back("tools");
  return json;
}

absl::StatusOr<Json> ShowFields(HttpModels& models, JsonFields& fields,
                                const TokenCaller& /*caller*/) {
  ASSIGN_OR_RETURN(const auto model, fields.Text("model"));
  ASSIGN_OR_RETURN(const auto older, fields.Text("name"));
  // There is nothing more to say.
  fields.Ignore({"verbose"});
  RETURN_IF_ERROR(fields.End());
  const std::string name = model.value_or(older.value_or(""));
  for (const ModelInfo& info : models.List()) {
    if (info.name == name) return Show(info);
  }
  return absl::NotFoundError(absl::StrCat("model '", name, "' not found"));
}

}  // namespace

HttpResponse ListOllamaModels(const std::vector<ModelInfo>& models,
                              int64_t created_s) {
  Json list = EmptyList();
  for (const ModelInfo& model : models) {
    const int64_t bytes =
        model.ready.has_value() ? model.ready->weight_bytes : 0;
    Json json = Named(model, bytes);
    json["modified_at"] = OllamaTime(absl::FromUnixSeconds(created_s));
    list["models"].push_back(std::move(json));
  }
  return {.body = Dump(list)};
}

HttpResponse ListOllamaLoaded(const std::vector<ModelInfo>& models,
                              int64_t /*created_s*/) {
  Json list = EmptyList();
  for (const ModelInfo& model : models) {
    if (!model.ready.has_value()) continue;
    int64_t bytes = 0;
    int64_t device_bytes = 0;
    for (const ModelPart& part : model.ready->parts) {
      bytes += part.total_bytes;
      if (!part.is_on_host) device_bytes += part.total_bytes;
    }
    Json json = Named(model, bytes);
    json["expires_at"] = ExpiryOf(model);
    json["size_vram"] = device_bytes;
    json["context_length"] = model.ready->n_ctx;
    list["models"].push_back(std::move(json));
  }
  return {.body = Dump(list)};
}

HttpResponse OllamaVersion(const std::vector<ModelInfo>& /*models*/,
                           int64_t /*created_s*/) {
  Json json;
  json["version"] = PLIMSOLL_VERSION;
  return {.body = Dump(json)};
}

void AnswerOllamaShow(const HttpRoom& room, HttpRequest request,
                      std::shared_ptr<HttpReply> reply) {
  AnswerJson(room, {ShowFields, OllamaError}, std::move(request),
             std::move(reply));
}

}  // namespace plimsoll::services
