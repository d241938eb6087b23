#include "planner/layout/cpu_experts.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/auto_context.h"
#include "planner/layout/explain.h"
#include "planner/layout/plan_regions.h"

namespace plimsoll::planner {
namespace {

bool HasExperts(const LayerShape& layer) { return layer.expert_ffn_dim > 0; }

// Finds how many layers' experts the host takes. With more of them the device
// needs less, and the host more.
class ExpertSolver {
 public:
  ExpertSolver(const PlanInputs& inputs, int64_t cap)
      : inputs_(inputs),
        cap_(cap),
        n_layers_(NumExpertLayers(inputs.shape())) {}

  int64_t Solve() const {
    const std::optional<int64_t>& asked = inputs_.options().n_ctx;
    const int64_t wanted =
        std::min(asked.value_or(kContextBeforeExperts), cap_);
    if (const auto n = Least(wanted)) return *n;
    const ContextGrid grid(cap_, inputs_.context_step());
    const int64_t most = MostOnHost(asked ? wanted : grid.At(0));
    if (asked) return most;
    int64_t n_ctx = 0;
    With(most, [&](const PlanInputs& inputs) {
      n_ctx = LargestContext(inputs, cap_);
      return n_ctx > 0;
    });
    return n_ctx == 0 ? most : Least(n_ctx).value_or(most);
  }

 private:
  // Calls `ask` with the inputs of a plan with the experts of `n` layers on the
  // host. Returns its answer, or false if there is no such plan.
  bool With(int64_t n, absl::FunctionRef<bool(const PlanInputs&)> ask) const {
    PlanOptions options = inputs_.options();
    options.n_cpu_experts = n;
    const auto inputs = inputs_.With(options);
    return inputs.ok() && ask(*inputs);
  }

  bool FitsDevice(int64_t n, int64_t n_ctx) const {
    return With(n, [&](const PlanInputs& inputs) {
      const auto bytes = WantedBytes(inputs, n_ctx);
      return bytes && *bytes <= inputs.budget_bytes();
    });
  }
  bool FitsHost(int64_t n, int64_t n_ctx) const {
    return With(n, [&](const PlanInputs& inputs) {
      const auto sizes = SizeTotals(inputs, n_ctx);
      return sizes.ok() &&
             sizes->host_bytes <= inputs.options().host_budget_bytes.value_or(
                                      std::numeric_limits<int64_t>::max());
    });
  }

  // The smallest number for which `holds`, which holds for all larger ones too.
  // It is n_layers_ + 1 if there is none.
  int64_t FirstThat(absl::FunctionRef<bool(int64_t)> holds) const {
    int64_t low = 0;
    int64_t high = n_layers_ + 1;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (holds(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // The smallest number with which device and host have room.
  std::optional<int64_t> Least(int64_t n_ctx) const {
    const int64_t n =
        FirstThat([&](int64_t layers) { return FitsDevice(layers, n_ctx); });
    if (n > n_layers_ || !FitsHost(n, n_ctx)) return std::nullopt;
    return n;
  }
  int64_t MostOnHost(int64_t n_ctx) const {
    const int64_t too_many =
        FirstThat([&](int64_t layers) { return !FitsHost(layers, n_ctx); });
    return std::max<int64_t>(too_many - 1, 0);
  }

  const PlanInputs& inputs_;
  const int64_t cap_;
  const int64_t n_layers_;
};

std::string OfLayers(int64_t n, int64_t n_layers) {
  return absl::StrCat("the experts of ", n, " of ", n_layers, " layers");
}

}  // namespace

const DeviceProfile& HostProfile() {
  static const DeviceProfile* const profile =
      new DeviceProfile(CommittedCpuProfile());
  return *profile;
}

int64_t NumExpertLayers(const ModelShape& shape) {
  return std::ranges::count_if(shape.layers, HasExperts);
}

int64_t CpuExpertsEnd(const ModelShape& shape, int64_t n) {
  if (n <= 0) return 0;
  int64_t end = 0;
  for (size_t il = 0; il < shape.layers.size() && n > 0; ++il) {
    if (!HasExperts(shape.layers[il])) continue;
    end = static_cast<int64_t>(il) + 1;
    --n;
  }
  return end;
}

bool IsCpuExpert(const WeightTensor& tensor, int64_t end) {
  if (end == 0 || tensor.kind != WeightKind::kExpert) return false;
  return LayerOf(tensor.name).value_or(end) < end;
}

absl::Status CheckCpuExperts(const ModelShape& shape,
                             const PlanOptions& options,
                             const DeviceProfile& profile) {
  if (options.n_cpu_experts == 0) return absl::OkStatus();
  const auto refuse = [](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "n_cpu_experts asks for experts in host memory, but ", why));
  };
  if (profile.kind == "cpu") {
    return refuse(
        "the device is the CPU, which computes all experts already; leave it "
        "out, or choose a device with memory of its own");
  }
  if (!shape.has_first_layer || !shape.has_last_layer) {
    return refuse(
        "the model lies on several devices; leave it out, and let the CPU be "
        "the last device to take whole layers");
  }
  if (options.engine.policy != ReservePolicy::kExact ||
      options.engine.weight_bytes) {
    return refuse(
        "the plan is for another engine; leave out policy and weight_bytes");
  }
  if (options.engine.host_weights.experts) {
    return refuse("host_weights has the experts too; leave one of them out");
  }
  return absl::OkStatus();
}

int64_t DecideCpuExperts(const PlanInputs& inputs, int64_t cap) {
  if (const auto& asked = inputs.options().n_cpu_experts) {
    return std::min(*asked, NumExpertLayers(inputs.shape()));
  }
  return ExpertSolver(inputs, cap).Solve();
}

std::string CpuExpertsReason(const PlanInputs& inputs, const MemoryPlan& plan,
                             const PlanOptions& asked) {
  if (asked.n_cpu_experts == 0) return "";
  const int64_t n_layers = NumExpertLayers(inputs.shape());
  const int64_t n = plan.options.n_cpu_experts.value_or(0);
  if (n_layers == 0) return "the model has no experts";
  if (asked.n_cpu_experts) {
    return absl::StrCat(OfLayers(n, n_layers),
                        " were asked to be in host memory");
  }
  if (!plan.fits) {
    return n == n_layers
               ? "all experts are in host memory, and the plan does not fit"
               : absl::StrCat("host memory has no room for more than ",
                              OfLayers(n, n_layers));
  }
  if (n == 0) return "the device has room for all experts";
  const int64_t n_ctx =
      std::min(plan.n_ctx, asked.n_ctx.value_or(kContextBeforeExperts));
  PlanOptions fewer = inputs.options();
  fewer.n_cpu_experts = n - 1;
  const auto with_fewer = inputs.With(fewer);
  std::optional<int64_t> bytes;
  if (with_fewer.ok()) bytes = WantedBytes(*with_fewer, n_ctx);
  return absl::StrCat(
      OfLayers(n, n_layers), " are in host memory: with those of ", n - 1, ", ",
      WithThousands(n_ctx), " tokens of context need ",
      bytes ? WithThousands(*bytes) : "more than 2^63",
      " bytes on the device, the budget is ", WithThousands(plan.budget_bytes));
}

MemoryPlan HostPlanOf(const MemoryPlan& plan) {
  const Region* experts = plan.FindRegion("experts_host");
  MemoryPlan host = {};
  host.n_ctx = plan.n_ctx;
  host.options = plan.options;
  host.n_rows = plan.n_rows;
  host.n_sampled = plan.n_sampled;
  host.weights = plan.cpu_weights;
  host.workspace = plan.cpu_workspace;
  const int64_t weight_bytes = experts == nullptr ? 0 : experts->bytes;
  const int64_t alignment = HostProfile().alignment;
  host.regions = {{"weights", 0, weight_bytes, alignment, Basis::kDerived, ""},
                  {"workspace", weight_bytes, host.workspace.bytes, alignment,
                   Basis::kDerived, ""}};
  host.arena_bytes = weight_bytes + host.workspace.bytes;
  return host;
}

}  // namespace plimsoll::planner
