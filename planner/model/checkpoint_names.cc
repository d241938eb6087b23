#include "planner/model/checkpoint_names.h"

#include <span>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "planner/gguf/gguf_stream.h"
#include "planner/model/architectures.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {
namespace {

constexpr ModuleName kOfModel[] = {
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"lm_head", "output"},
};

// The modules that layers of every architecture may have; its norms come
// besides (CheckpointForm).
constexpr ModuleName kOfLayer[] = {
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},           {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

// A model with other parts has its text part under such a name.
constexpr absl::string_view kTextPrefixes[] = {"model.", "language_model."};

// What a file does not have begins or ends like this.
constexpr absl::string_view kOtherPrefixes[] = {
    "vision_tower.", "vision_model.", "multi_modal_projector.", "audio_tower."};
constexpr absl::string_view kRotations = ".rotary_emb.inv_freq";

// Takes the layer's number, as in "layers.7.", from the front of `name`; -1 if
// there is none.
int64_t TakeLayer(absl::string_view& name) {
  absl::string_view rest = name;
  int64_t layer = 0;
  if (!absl::ConsumePrefix(&rest, "layers.")) return -1;
  const size_t dot = rest.find('.');
  const absl::string_view digits = rest.substr(0, dot);
  if (dot == absl::string_view::npos || digits.empty() || digits.size() > 3 ||
      !absl::c_all_of(digits, absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &layer)) {
    return -1;
  }
  name = rest.substr(dot + 1);
  return layer;
}

// The place of a module in a table; -1 if it is not there.
int64_t PlaceIn(std::span<const ModuleName> table, absl::string_view module) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].checkpoint == module) return static_cast<int64_t>(i);
  }
  return -1;
}

bool HasNorm(absl::string_view name) {
  return absl::EndsWith(name, "norm.weight");
}

}  // namespace

absl::StatusOr<std::optional<FileTensor>> FindFileTensor(
    const Architecture& architecture, absl::string_view name) {
  const CheckpointForm& form = architecture.checkpoint;
  absl::string_view rest = name;
  while (absl::c_any_of(kTextPrefixes, [&](absl::string_view part) {
    return absl::ConsumePrefix(&rest, part);
  })) {
  }
  const auto begins = [&](absl::string_view part) {
    return absl::StartsWith(rest, part);
  };
  if (absl::c_any_of(kOtherPrefixes, begins) ||
      absl::EndsWith(rest, kRotations)) {
    return std::optional<FileTensor>();
  }
  const int64_t layer = TakeLayer(rest);
  const size_t dot = rest.rfind('.');
  const absl::string_view kind =
      dot == absl::string_view::npos ? "" : rest.substr(dot);
  const absl::string_view module = rest.substr(0, dot);
  constexpr int64_t kMostOfLayer = 64;
  const std::span<const ModuleName> tables[] = {
      layer < 0 ? std::span<const ModuleName>(kOfModel) : form.norms,
      layer < 0 ? std::span<const ModuleName>() : kOfLayer};
  int64_t place = (layer + 1) * kMostOfLayer;
  for (const std::span<const ModuleName> table : tables) {
    const int64_t at = PlaceIn(table, module);
    if (at < 0 || (kind != ".weight" && kind != ".bias")) {
      place += static_cast<int64_t>(table.size());
      continue;
    }
    const absl::string_view file = table[static_cast<size_t>(at)].file;
    FileTensor tensor = {
        .name = absl::StrCat(layer < 0 ? "" : absl::StrCat("blk.", layer, "."),
                             file, kind),
        .place = place + at};
    tensor.adds_one = form.norms_lack_one && HasNorm(tensor.name);
    tensor.moves_rows = architecture.rope_pairs == RopePairs::kAdjacent &&
                        !form.has_adjacent_pairs &&
                        (file == "attn_q" || file == "attn_k");
    return tensor;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(name), " is unknown to the architecture ",
                   architecture.name));
}

absl::Status CheckConvertible(const Architecture& architecture) {
  if (!architecture.checkpoint.norms.empty()) return absl::OkStatus();
  std::string known;
  for (const Architecture* other : Architectures()) {
    if (other->checkpoint.norms.empty()) continue;
    absl::StrAppend(&known, known.empty() ? "" : ", ", other->name);
  }
  return absl::UnimplementedError(
      absl::StrCat("checkpoints of the architecture ", architecture.name,
                   " cannot be converted (those of ", known,
                   " can); look for a GGUF file of the model"));
}

int64_t SourceRow(int64_t row, int64_t head_dim, int64_t n_rot) {
  const int64_t at = row % head_dim;
  if (at >= n_rot) return row;
  return row - at + at / 2 + at % 2 * (n_rot / 2);
}

}  // namespace plimsoll::planner
