#include "services/wire/change_words.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"

namespace plimsoll::services {
namespace {

class Flags {
 public:
  void Add(absl::string_view flag, absl::string_view value) {
    words_.push_back(absl::StrCat(flag, " ", value));
  }
  void Add(absl::string_view flag, const std::optional<int64_t>& value) {
    if (value) Add(flag, absl::StrCat(*value));
  }
  void Add(absl::string_view flag, const std::optional<DType>& type) {
    if (type) Add(flag, DTypeName(*type));
  }
  std::string Text() const { return absl::StrJoin(words_, " "); }

 private:
  std::vector<std::string> words_;
};

}  // namespace

std::string FlagsOf(const planner::Change& change) {
  std::vector<absl::string_view> kinds;
  if (change.host_weights.per_layer_embeddings) {
    kinds.push_back("per-layer-embeddings");
  }
  if (change.host_weights.experts) kinds.push_back("experts");
  Flags flags;
  if (change.host_tables) flags.Add("--tables", "host");
  if (!kinds.empty()) flags.Add("--host-weights", absl::StrJoin(kinds, ","));
  flags.Add("--n-ubatch", change.n_ubatch);
  flags.Add("--kv-type", change.kv_type);
  flags.Add("--parked-slots", change.n_parked);
  flags.Add("--slots", change.n_slots);
  flags.Add("--cpu-experts", change.n_cpu_experts);
  flags.Add("--n-ctx", change.n_ctx);
  flags.Add("--max-inference-len", change.max_inference_len);
  flags.Add("--weights", change.weight_type);
  return flags.Text();
}

}  // namespace plimsoll::services
