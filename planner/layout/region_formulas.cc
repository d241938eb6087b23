#include "planner/layout/region_formulas.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/layout/cpu_experts.h"

namespace plimsoll::planner {
namespace {

std::string KvTypes(const ModelShape& shape, const LoadOptions& options) {
  if (shape.latent.rank > 0) {
    return absl::StrCat(DTypeName(options.k_type), ", one row for all heads");
  }
  return absl::StrCat(DTypeName(options.k_type), " keys, ",
                      DTypeName(options.v_type), " values");
}

// How many layers have keys and values at all, if not every one has.
std::string AttendingLayers(const ModelShape& shape) {
  const auto n = std::ranges::count_if(shape.layers, &LayerShape::Attends);
  if (n == std::ssize(shape.layers)) return "";
  return absl::StrCat(", ", n, " of ", shape.layers.size(), " layers attend");
}

std::string KvFormula(const ModelShape& shape, const PlanOptions& options,
                      const KvBytes& kv) {
  std::string formula =
      options.kv_tokens
          ? absl::StrCat("a pool of ", kv.n_pages)
          : absl::StrCat(options.n_slots, " slots x ", kv.pages_per_slot);
  if (kv.page_tokens == 1) {
    absl::StrAppend(&formula, " cells x ", kv.page_bytes, " bytes (");
  } else {
    absl::StrAppend(&formula, " pages x ", kv.page_bytes, " bytes (",
                    kv.page_tokens, " tokens a page, ");
  }
  absl::StrAppend(&formula, KvTypes(shape, options));
  if (!options.engine.flash_attention) {
    absl::StrAppend(&formula, ", no flash attention");
  }
  absl::StrAppend(&formula, AttendingLayers(shape), ")");
  return formula;
}

std::string WeightsFormula(const PlanInputs& inputs, const RegionSizes& sizes) {
  const PlanOptions& options = inputs.options();
  if (options.mmap_weights) {
    return "norms and biases; all else stays in the mapped file";
  }
  if (options.n_cpu_experts.value_or(0) > 0) {
    return absl::StrCat("all but the experts of ", *options.n_cpu_experts,
                        " layers, as stored on the device");
  }
  if (options.host_tables && sizes.mapped_bytes > 0) {
    return "all but tables, which stay in the mapped file";
  }
  return options.engine.weight_bytes
             ? "as given"
             : absl::StrCat(inputs.shape().weights.size(),
                            " tensors as stored on the device");
}

// What a model keeps of its contexts; empty for other regions.
std::string ContextFormula(const PlanInputs& inputs, const RegionSizes& sizes,
                           absl::string_view region) {
  const PlanOptions& options = inputs.options();
  if (region == "kv_full") return KvFormula(inputs.shape(), options, sizes.kv);
  if (region == "kv_window") {
    return absl::StrCat("(", options.n_slots, " slots + ",
                        inputs.n_idle_sessions(), " idle) x ",
                        sizes.kv.ring_bytes, " bytes of rings");
  }
  if (region == "state") {
    const int64_t n_recurrent =
        std::ranges::count_if(inputs.shape().layers, &LayerShape::IsRecurrent);
    const std::string each = absl::StrCat(sizes.kv.state_bytes, " bytes of ",
                                          n_recurrent, " recurrent layers");
    return absl::StrCat("(", options.n_slots, " slots x ", 1 + options.n_draft,
                        " + ", inputs.n_idle_sessions(), " idle) x ", each);
  }
  if (region == "kv_draft" && options.n_draft > 0) {
    return absl::StrCat(options.n_slots, " slots x ", options.n_draft,
                        " draft tokens x ", sizes.kv.ring_row_bytes,
                        " bytes of a token in rings");
  }
  if (region == "kv_mtp") {
    return absl::StrCat(sizes.kv.n_pages, " pages x ", sizes.mtp_kv.page_bytes,
                        " bytes of the MTP head's layer");
  }
  if (region == "kv_parked") {
    return absl::StrCat(options.n_parked, " x ", sizes.SlotBytes(),
                        " bytes of what a slot keeps, on the host");
  }
  if (region == "tables" && inputs.shape().has_first_layer) {
    return absl::StrCat(
        "(", options.n_slots, " slots x ", kPageEntryBytes + kPageStateBytes,
        " + ", options.n_parked, " parked x ", kPageEntryBytes, " bytes) x ",
        sizes.kv.pages_per_slot, " page entries, on the host");
  }
  return "";
}

// What a step works in; empty for other regions.
std::string StepFormula(const PlanInputs& inputs, const RegionSizes& sizes,
                        absl::string_view region) {
  if (region == "workspace") {
    return absl::StrCat("one step of ", sizes.n_rows, " rows, ",
                        sizes.n_sampled, " of them sampled");
  }
  if (region == "logits" && inputs.shape().has_last_layer) {
    return absl::StrCat(sizes.n_sampled, " rows x ", inputs.shape().vocab_size,
                        " tokens x 4 bytes");
  }
  if (region == "candidates" && inputs.shape().has_last_layer) {
    return absl::StrCat(
        sizes.n_sampled, " rows x ", inputs.profile().workspace.max_candidates,
        " candidates x ", kCandidateBytes, " bytes, on the host");
  }
  if (region == "experts_workspace") {
    return absl::StrCat("one step of ", sizes.n_rows,
                        " rows of these experts + the allocator's rounding");
  }
  if (region == "scratch") return "one token's buffers and logits";
  return "";
}

// What lies outside of the arena, and what other engines have; empty for other
// regions.
std::string OtherFormula(const PlanInputs& inputs, absl::string_view region) {
  const PlanOptions& options = inputs.options();
  if (region == "vocab") return "tokenizer tables on the host";
  if (region == "runtime") {
    const std::string& note = inputs.profile().runtime_note;
    return note.empty() ? "the process itself, outside the arena" : note;
  }
  if (region == "messages") {
    return "requests and replies, in calls and in gRPC; more are refused";
  }
  if (region == "experts_host") {
    const int64_t n_layers = options.n_cpu_experts.value_or(0);
    return absl::StrCat("the experts of ", n_layers, " of ",
                        NumExpertLayers(inputs.shape()),
                        " layers, as the CPU stores them");
  }
  if (region == "mtp") {
    return absl::StrCat("the MTP head: ", inputs.mtp()->shape.weights.size(),
                        " tensors, and a step's rows that it reads");
  }
  if (region == "weights_host") return "experts and tables kept on the host";
  if (region == "weights_mmap") {
    return "pages of the mapped file, which the system may drop and read "
           "again; not in the total";
  }
  if (region == "projector") return "the projector's tensors, as in its file";
  if (region == "projector_workspace") {
    return "activations of one image or 30 s of sound";
  }
  if (region == "reserve") {
    return options.engine.policy == ReservePolicy::kDense
               ? "max(a third of the device, 2 GiB)"
               : "min(max(a third, 2 GiB), max(a sixth, 2 GiB) + 4096 tokens' "
                 "activations)";
  }
  if (region == "margin") {
    return absl::StrCat(options.margin_bytes,
                        " bytes of policy + the allocator's rounding");
  }
  return "";
}

std::string FormulaOf(const PlanInputs& inputs, const RegionSizes& sizes,
                      absl::string_view region) {
  if (region == "weights") return WeightsFormula(inputs, sizes);
  std::string formula = ContextFormula(inputs, sizes, region);
  if (formula.empty()) formula = StepFormula(inputs, sizes, region);
  if (formula.empty()) formula = OtherFormula(inputs, region);
  return formula.empty() ? "not enabled" : formula;
}

}  // namespace

void ExplainRegions(const PlanInputs& inputs, RegionSizes& sizes) {
  for (Region& region : sizes.regions) {
    region.formula = FormulaOf(inputs, sizes, region.name);
  }
}

}  // namespace plimsoll::planner
