// Writes a plan as manifests of Kubernetes.
#include "services/cli/views/pod_view.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/checked_math.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "services/cli/terminal/bytes.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kMiB = 1 << 20;
// A page table has 8 bytes for each page of 4,096.
constexpr int64_t kBytesPerTableByte = 512;
// Host memory of a CUDA context: an estimate, nothing of it was measured.
constexpr int64_t kDriverBytes = int64_t{1} << 30;
// What frames that no honest client sends may take for a while, at most, as
// docs/reliability.md says. It is not requested: no honest call needs it.
constexpr int64_t kHostileBytes = 448 * kMiB;
constexpr size_t kMaxFileBytes = 120;  // as a name for clients it may have 128
// The folder of models in a worker's pod; deploy/k8s mounts it.
constexpr absl::string_view kModelFolder = "/models";

bool IsOnHost(const PodModel& model) { return model.device == "cpu"; }

// The bytes of the claim: a driver that shares a GPU counts in whole MiB.
absl::StatusOr<int64_t> ClaimBytes(const planner::MemoryPlan& plan) {
  const auto bytes = CheckedRoundUp(plan.total_bytes, kMiB);
  if (bytes.has_value()) return *bytes;
  return absl::OutOfRangeError("the claim does not fit in int64 bytes");
}

std::string KvTypesText(const planner::LoadOptions& options) {
  if (options.k_type == options.v_type) {
    return std::string(DTypeName(options.k_type));
  }
  return absl::StrCat(DTypeName(options.k_type), ",",
                      DTypeName(options.v_type));
}

// The worker's flags, every one that the plan depends on.
std::vector<std::string> ArgsOf(const planner::MemoryPlan& plan,
                                const PodModel& model, int64_t claim_bytes) {
  const planner::LoadOptions& options = plan.options;
  std::vector<std::string> args = {
      absl::StrCat("--model=", absl::StripSuffix(model.file, ".gguf"), "=",
                   kModelFolder, "/", model.file),
      absl::StrCat("--device=", model.device),
      absl::StrCat("--threads=", model.n_threads),
      absl::StrCat("--n-ctx=", plan.n_ctx),
      absl::StrCat("--slots=", options.n_slots),
      absl::StrCat("--n-ubatch=", options.n_ubatch),
      absl::StrCat("--kv-type=", KvTypesText(options)),
      absl::StrCat("--parked-slots=", options.n_parked),
      absl::StrCat("--draft-tokens=", options.n_draft)};
  if (plan.HasMtp()) args.emplace_back("--draft=mtp");
  if (options.n_idle_sessions > 0) {
    args.push_back(absl::StrCat("--idle-sessions=", options.n_idle_sessions));
  }
  if (options.kv_tokens.has_value()) {
    args.push_back(absl::StrCat("--kv-tokens=", *options.kv_tokens));
  }
  if (options.n_cpu_experts.value_or(0) > 0) {
    args.push_back(absl::StrCat("--cpu-experts=", *options.n_cpu_experts));
  }
  if (options.mmap_weights) args.push_back("--mmap");
  // The driver counts what is claimed and enforces nothing.
  if (!IsOnHost(model)) {
    args.push_back(absl::StrCat("--device-memory=", claim_bytes));
  }
  return args;
}

std::string MemoryComment(const PodMemory& memory) {
  std::string out = "# Memory of the pod:\n";
  const auto add = [&out](int64_t bytes, absl::string_view what) {
    if (bytes > 0) absl::StrAppendFormat(&out, "# %15d %s\n", bytes, what);
  };
  add(memory.plan, "the plan");
  add(memory.runtime, memory.driver > 0
                          ? "the process"
                          : "the process once more: it runs when it plans");
  add(memory.driver, "the GPU's driver, an estimate");
  add(memory.page_tables, "page tables");
  add(memory.total - memory.plan - memory.runtime - memory.driver -
          memory.page_tables,
      "up to a whole MiB");
  add(memory.limit - memory.total,
      "in the limit alone, for hostile frames of HTTP/2");
  return out;
}

std::string WorkerPatch(const std::vector<std::string>& args, int64_t n_cpus,
                        const PodMemory& memory, int64_t plan_bytes) {
  std::string out =
      "apiVersion: apps/v1\n"
      "kind: StatefulSet\n"
      "metadata:\n"
      "  name: plimsoll-worker\n"
      "spec:\n"
      "  template:\n"
      "    metadata:\n"
      "      annotations:\n";
  absl::StrAppend(&out, "        plimsoll.dev/plan-bytes: \"", plan_bytes,
                  "\"\n",
                  "    spec:\n"
                  "      containers:\n"
                  "        - name: worker\n"
                  "          args:\n");
  for (const std::string& arg : args) {
    absl::StrAppend(&out, "            - \"", arg, "\"\n");
  }
  absl::StrAppend(&out,
                  "          resources:\n"
                  "            requests:\n"
                  "              cpu: \"",
                  n_cpus, "\"\n              memory: \"", memory.total,
                  "\"\n            limits:\n              memory: \"",
                  memory.limit, "\"\n");
  return out;
}

std::string ClaimPatch(int64_t claim_bytes) {
  return absl::StrCat(
      "---\n"
      "apiVersion: resource.k8s.io/v1\n"
      "kind: ResourceClaimTemplate\n"
      "metadata:\n"
      "  name: plimsoll-gpu\n"
      "spec:\n"
      "  spec:\n"
      "    devices:\n"
      "      requests:\n"
      "        - name: gpu\n"
      "          exactly:\n"
      "            deviceClassName: gpu.nvidia.com\n"
      "            capacity:\n"
      "              requests:\n"
      "                memory: ",
      claim_bytes / kMiB, "Mi\n");
}

}  // namespace

absl::StatusOr<PodMemory> PodMemoryOf(const planner::MemoryPlan& plan,
                                      const PodModel& model) {
  PodMemory memory = {.plan = plan.host_bytes, .runtime = model.runtime_bytes};
  Checked held = plan.host_bytes;
  if (IsOnHost(model)) {
    held = Checked(plan.total_bytes) + plan.mapped_bytes;
    memory.plan = held.Get().value_or(0);
  } else {
    memory.driver = kDriverBytes;
  }
  held += Checked(memory.runtime) + memory.driver;
  memory.page_tables = CeilDiv(held.Get().value_or(0), kBytesPerTableByte);
  const auto total = RoundUp(held + memory.page_tables, kMiB).Get();
  const auto limit = CheckedAdd(total.value_or(0), kHostileBytes);
  if (!total.has_value() || !limit.has_value()) {
    return absl::OutOfRangeError(
        "the memory of the pod does not fit in int64 bytes");
  }
  memory.total = *total;
  memory.limit = *limit;
  return memory;
}

absl::Status CheckPodFile(absl::string_view file) {
  const bool is_plain = std::all_of(file.begin(), file.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
           c == '-' || c == '_';
  });
  if (is_plain && absl::EndsWith(file, ".gguf") &&
      file.size() <= kMaxFileBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "a pod loads a file FILE.gguf whose name has letters, digits, '.', '-' "
      "and '_' only, and at most 120 of them; rename it");
}

absl::StatusOr<std::string> RenderPod(const planner::MemoryPlan& plan,
                                      const PodModel& model) {
  ASSIGN_OR_RETURN(const PodMemory memory, PodMemoryOf(plan, model));
  ASSIGN_OR_RETURN(const int64_t claim_bytes, ClaimBytes(plan));
  std::string out = absl::StrCat(
      "# ", model.file, " on ", model.device, ": a plan of ",
      FormatCount(plan.total_bytes), " bytes,\n# ", plan.options.n_slots,
      plan.options.n_slots == 1 ? " slot" : " slots", " of ",
      FormatCount(plan.n_ctx), " tokens.\n", MemoryComment(memory),
      WorkerPatch(ArgsOf(plan, model, claim_bytes), model.n_threads, memory,
                  plan.total_bytes));
  if (!IsOnHost(model)) absl::StrAppend(&out, ClaimPatch(claim_bytes));
  return out;
}

}  // namespace plimsoll::cli
