#include "services/worker/process/worker_flags.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "planner/layout/layer_split.h"
#include "services/host/device_list.h"
#include "services/server/flags.h"
#include "services/settings/settings_flags.h"
#include "services/tracing/tracing_flags.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kMaxCount = std::numeric_limits<uint32_t>::max();
// Each of a device's own is checked when they are taken apart.
constexpr size_t kMaxIdsBytes = planner::kMaxSplitDevices * 257;

void AddIdleSessionFlags(CLI::App& app, planner::LoadOptions& load) {
  app.add_option("--idle-sessions", load.n_idle_sessions, kIdleSessionsHelp)
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, planner::LoadOptions::kMaxIdleSessions));
  // A number of 0 may stand beside bytes: --print-config writes it.
  AddBytesFlag(app, "--idle-session-bytes", load.idle_session_bytes,
               kIdleSessionBytesHelp)
      ->check(
          [&load](const std::string&) -> std::string {
            return load.n_idle_sessions == 0 ? "" : kIdleSessionsTwice;
          },
          "");
}

// Flags that say how much of everything a model gets.
void AddSizeFlags(CLI::App& app, planner::LoadOptions& load) {
  app.add_option("--n-ctx", load.n_ctx,
                 "Tokens of context of one slot (the largest that fits)")
      ->check(CLI::Range(int64_t{1}, kMaxCount));
  app.add_option("--max-inference-len", load.max_inference_len,
                 "Upper limit on context and every length-dependent buffer")
      ->check(CLI::Range(int64_t{1}, kMaxCount));
  app.add_option("--slots", load.n_slots, "Sequences that run at once")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, planner::LoadOptions::kMaxSlots));
  app.add_option("--kv-tokens", load.kv_tokens,
                 "Tokens of KV cache that all slots share; where they run out "
                 "the newest requests begin again later, or with --preemption "
                 "off they begin later (slots x n_ctx)")
      ->check(CLI::Range(int64_t{1}, kMaxCount));
  app.add_option("--n-ubatch", load.n_ubatch, "Rows of one step")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, planner::LoadOptions::kMaxUbatch));
  AddIdleSessionFlags(app, load);
  app.add_option("--draft-tokens", load.n_draft,
                 "Tokens that a request may have guessed and verified in one "
                 "step; each takes a row of logits a slot")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, planner::LoadOptions::kMaxDraftTokens));
  app.add_option_function<std::string>(
         "--draft",
         [&load](const std::string& source) {
           if (source != "mtp") return;
           load.draft_source = planner::DraftSource::kMtp;
           if (load.n_draft > 0) return;
           load.n_draft = planner::LoadOptions::kMtpDraftTokens;
         },
         "The source of the guesses: the text so far (lookup), or the model's "
         "head for the token after the next one (mtp), which is loaded only "
         "then; with mtp, requests guess unless they say otherwise")
      ->default_str("lookup")
      ->check(CLI::IsMember({"lookup", "mtp"}));
  app.add_option("--parked-slots", load.n_parked,
                 "Contexts that may wait in host memory while others use their "
                 "slots, where a stream that rolls for ever would keep others "
                 "waiting; with 0 it goes on from recomputed keys")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, planner::LoadOptions::kMaxParked));
}

// Flags that say where a model's weights lie, and how its KV cache is stored.
void AddStorageFlags(CLI::App& app, planner::LoadOptions& load) {
  app.add_flag("--mmap", load.mmap_weights, kMmapHelp);
  app.add_option_function<std::string>(
         "--tables",
         [&load](const std::string& home) {
           load.host_tables = home == "host";
         },
         "Where to keep tables of which steps read single rows, such as "
         "per-layer embeddings; host: in the mapped file")
      ->default_str("device")
      ->check(CLI::IsMember({"device", "host"}));
  app.add_option_function<std::string>(
         "--cpu-experts",
         [&load](const std::string& text) {
           const auto n = ParseCpuExperts(text);
           if (!n.ok()) {
             throw CLI::ValidationError("--cpu-experts",
                                        std::string(n.status().message()));
           }
           load.n_cpu_experts = *n;
         },
         kCpuExpertsHelp)
      ->type_name("all|auto|N");
  app.add_option_function<std::vector<std::string>>(
         "--kv-type",
         [&load](const std::vector<std::string>& names) {
           load.k_type = FindDType(absl::string_view(names.front()))->dtype;
           load.v_type = FindDType(absl::string_view(names.back()))->dtype;
         },
         "Element type of the KV cache, or of keys and of values: f32, f16, "
         "bf16, q8_0, q5_1 or q4_0")
      ->default_str("f16")
      ->expected(1, 2)
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0", "q5_1", "q4_0"}));
}

// What says which models are in memory, and for how long.
void AddDemandFlags(CLI::App& app, WorkerOptions& options) {
  CLI::Option* lazy = app.add_flag(
      "--lazy", options.lazy,
      "Load models when LoadModel asks for them, not at the start");
  CLI::Option* on_demand = app.add_flag(
      "--on-demand", options.on_demand,
      "Load a model when a call for it comes, and unload others, those that "
      "nobody has used for the longest time first, until it fits; only pinned "
      "models are loaded at the start");
  on_demand->excludes(lazy);
  app.add_option("--pin", options.pinned,
                 "Name of a model that --on-demand never unloads; repeatable")
      ->type_name("NAME")
      ->needs(on_demand)
      ->check([&options](const std::string& name) {
        return HasModel(options.models, name)
                   ? std::string()
                   : "there is no --model called " + name;
      });
  app.add_option_function<int64_t>(
         "--keep-alive",
         [&options](int64_t seconds) {
           options.keep_alive = absl::Seconds(seconds);
         },
         "Unload a model that nobody has used for this many seconds (never)")
      ->type_name("S")
      ->needs(on_demand)
      ->check(CLI::Range(int64_t{0}, kMaxCount));
}

void AddEngineFlags(CLI::App& app, WorkerOptions& options) {
  app.add_option("--threads", options.n_threads,
                 "Threads that compute (all usable ones)")
      ->check(CLI::Range(0, worker::EngineOptions::kMaxThreads));
  AddBytesFlag(
      app, "--prefix-cache", options.prefix_cache_bytes,
      "Bytes of each model's KV cache whose beginnings of prompts are kept "
      "to be shared while no request needs them; 0 shares nothing (all)");
  AddPreemptionFlag(app, options.preemption);
  const CLI::Range share_range(worker::EngineOptions::kLeastPromptShare,
                               worker::EngineOptions::kMostPromptShare);
  app.add_option("--prompt-share", options.prompt_share,
                 "The part of a step's time that prompts may take while "
                 "streams are read: with less, streams go on faster beside "
                 "prompts, which wait longer for their first token")
      ->capture_default_str()
      ->check(share_range);
  app.add_option(
         "--prompt-share-beside-others", options.prompt_share_beside_others,
         "The part of the time, on average, that prompts may take while "
         "streams of other tenants are read: how much one tenant's "
         "prompts may slow the streams of another")
      ->capture_default_str()
      ->check(share_range);
  const std::map<std::string, worker::Precision> precisions = {
      {"default", worker::Precision::kDefault},
      {"invariant", worker::Precision::kInvariant},
      {"exact", worker::Precision::kExact}};
  app.add_option("--precision", options.precision,
                 "\"exact\" computes with float32 activations; with "
                 "\"invariant\" a GPU, like a CPU, gives a token the same bits "
                 "in any batch, which takes prompts longer (default)")
      ->transform(CLI::CheckedTransformer(precisions))
      ->default_str("default");
  app.add_option_function<std::string>(
      "--chat-format",
      [&options](const std::string& name) {
        const auto format = worker::ParseChatFormat(name);
        if (!format.ok()) {
          throw CLI::ValidationError("--chat-format",
                                     std::string(format.status().message()));
        }
        options.chat_format = *format;
      },
      "smollm2, chatml, gemma3 or functiongemma, whatever the model's file "
      "says");
}

void AddDeviceFlags(CLI::App& app, DeviceFlags& devices) {
  app.add_option_function<std::string>(
         "--device",
         [&devices](const std::string& text) {
           auto names = ParseDevices(text);
           if (!names.ok()) {
             throw CLI::ValidationError("--device",
                                        std::string(names.status().message()));
           }
           devices.names = *std::move(names);
         },
         "Where the models run: cpu, or the N-th CUDA device, cuda:N. Several "
         "with commas, such as cuda:0,cuda:1,cpu, share each model's layers, "
         "in this order; the later ones take what does not fit before")
      ->default_str("cpu")
      ->type_name("cpu|cuda:N[,...]");
  AddBytesListFlag(app, "--device-memory", devices.memory_bytes,
                   "Bytes that all models together may use of each device, "
                   "such as 12GiB, or of one after the other, 12GiB,40GiB (all "
                   "that is free)");
  app.add_option("--device-id", devices.ids,
                 "Name of this device for the planner (HOSTNAME/cpu; of a "
                 "CUDA device what its vendor calls it, GPU-...); of several "
                 "devices one for each, with commas, where an empty one is the "
                 "device's own")
      ->check([](const std::string& ids) {
        return ids.size() <= kMaxIdsBytes ? std::string() : "is too long";
      });
}

void AddWorkerFlags(CLI::App& app, WorkerFlags& flags) {
  app.description(
      "Loads language models exactly to their plan and serves them.");
  app.name("plimsoll-worker");
  WorkerOptions& options = flags.options;
  AddSettingsFlags(app, flags.settings);
  AddServerFlags(app, flags.server);
  AddTracingFlags(app, flags.tracing);
  AddModelFlag(app, options.models, ModelDigests::kChecked);
  AddDemandFlags(app, options);
  AddSizeFlags(app, options.load);
  AddStorageFlags(app, options.load);
  AddDeviceFlags(app, flags.devices);
  AddEngineFlags(app, options);
  AddHangFlag(app, options.hang_timeout);
  app.add_flag(
      "--log-requests", options.logs_requests,
      "Write a line on stderr for each request that has ended: its id, "
      "tenant, status, tokens and times, never its text");
  AddQuotaFlag(app, options.quota_file);
  AddUsageFlag(app, options.usage_file);
  app.add_option("--planner", options.planner,
                 "HOST:PORT or unix:/PATH of a planner (none: the worker plans "
                 "by itself)");
  AddClientFlags(app, options.planner_security);
  app.add_option(
         "--holder-file", options.holder_file,
         "A file of this worker alone, on a local disk that outlives its "
         "process: with it, the next process proves to the planner that this "
         "one has ended, and gives its memory back, where the planner cannot "
         "see that, as in another container (none)")
      ->type_name("FILE");
  app.add_option("--profile-dir", options.profile_folder,
                 "Folder where this worker keeps what it measured of its own "
                 "overhead, for the plans of later ones "
                 "($XDG_STATE_HOME/plimsoll/profiles)");
}

}  // namespace

void AddHangFlag(CLI::App& app, absl::Duration& hang_timeout) {
  AddSecondsFlag(
      app,
      {"--hang-timeout",
       "Seconds after which a part of a step, or of a load, that does not end "
       "counts as a hang: liveness falls, so that a supervisor ends the "
       "process"},
      hang_timeout,
      {WorkerOptions::kLeastHangTimeout, WorkerOptions::kMostHangTimeout});
}

void AddPreemptionFlag(CLI::App& app, worker::Preemption& preemption) {
  const std::map<std::string, worker::Preemption> values = {
      {"on", worker::Preemption::kOn}, {"off", worker::Preemption::kOff}};
  app.add_option("--preemption", preemption,
                 "Whether a running request may lose its slot to others and "
                 "begin again later; off: it begins only when all pages that "
                 "it may need are reserved, and keeps them to its end")
      ->transform(CLI::CheckedTransformer(values))
      ->default_str("on");
}

std::optional<int> ParseWorkerFlags(int argc, char** argv, WorkerFlags& flags) {
  CLI::App app;
  AddWorkerFlags(app, flags);
  if (const auto code = ParseFlags(app, argc, argv)) return code;
  return PrintIfAsked(flags.settings);
}

absl::StatusOr<WorkerFlags> ReadWorkerFlagsAgain(int argc, char** argv) {
  CLI::App app;
  WorkerFlags flags;
  AddWorkerFlags(app, flags);
  RETURN_IF_ERROR(ReadFlagsAgain(app, argc, argv));
  return flags;
}

}  // namespace plimsoll::services
