// docs/models.md says what the architectures' specifications and the device's
// profile say. With PLIMSOLL_WRITE_DOCS set, the test writes the page.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/model/architectures.h"
#include "tests/planner/model/small_models.h"
#include "tests/read_file.h"
#include "tests/worker/golden/families.h"
#include "worker/device/host_resources.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::planner::Architecture;
using ::plimsoll::testing::Family;
using ::plimsoll::testing::kFamilies;
using ::plimsoll::testing::ReadFile;

constexpr char kPath[] = "docs/models.md";

constexpr char kHead[] =
    "# Models\n\n"
    "`models_page_test` writes this page from the architectures' "
    "specifications\n"
    "([architectures.md](architectures.md)) and fails when they differ:\n"
    "`PLIMSOLL_WRITE_DOCS=1 build/release/bin/worker_golden_test\n"
    "--gtest_filter='ModelsPage*'` renews it.\n\n"
    "A model that is not in the table is refused by the name of its "
    "architecture.\n"
    "\"Proven by\" names tiny models of random weights on which two other "
    "engines\n"
    "agree (only one has short chunks, of llama4-chunks): all greedy tokens "
    "are\n"
    "theirs, and log-probabilities differ by at most\n"
    "0.003. With default precision, answers begin with theirs for at least "
    "0.9 of their\n"
    "length on average (`FamilyClosenessTest`).\n"
    "One graph computes on a CPU and on a CUDA device, so what runs, runs on "
    "both.\n"
    "Those with a star were compared on an emulated CUDA device too. On a real "
    "one\n"
    "only the tests of kernels and a model of random weights ran\n"
    "([measured](measured/h200.md)).\n\n"
    "| architecture | models | runs | context | chat format of a file without "
    "a "
    "template | proven by |\n"
    "|---|---|---|---|---|---|\n";

// Why a model with `n_experts` experts cannot run; empty if it can.
std::string WhyNot(const Architecture& architecture, uint64_t n_experts) {
  planner::HeaderNumbers numbers =
      planner::Small(std::string(architecture.name));
  if (architecture.windows == planner::WindowRule::kPattern) {
    numbers.Int("attention.sliding_window_pattern", 6);
  }
  if (n_experts > 0) {
    numbers.Int("expert_count", n_experts)
        .Int("expert_used_count", 1)
        .Int("expert_shared_feed_forward_length", 96);
  }
  absl::Status status = planner::AddTensors(
      numbers.header(), {DType::kF32, DType::kF32, DType::kF32}, true);
  if (status.ok()) {
    const auto shape = planner::ShapeFromGguf(numbers.header());
    status = shape.ok() ? CheckArchitecture(*shape) : shape.status();
  }
  return std::string(status.message());
}

// A model that needs experts has no form without them.
std::string Runs(const Architecture& architecture) {
  const std::string dense = WhyNot(architecture, 0);
  if (dense.empty() || WhyNot(architecture, 4).empty()) return "yes";
  const std::string begin =
      absl::StrCat("architecture \"", architecture.name, "\" with ");
  const size_t end = dense.find(" can be planned");
  EXPECT_EQ(dense.substr(0, begin.size()), begin);
  return absl::StrCat("planned; missing: ",
                      dense.substr(begin.size(), end - begin.size()));
}

std::string Context(const Architecture& architecture) {
  if (architecture.recurrent_layers != planner::RecurrentRule::kNone) {
    return "states and full layers";
  }
  switch (architecture.windows) {
    case planner::WindowRule::kNone:
      return "full";
    case planner::WindowRule::kPattern:
      return architecture.windows_are_chunks ? "chunks and full layers"
                                             : "windows and full layers";
    case planner::WindowRule::kAll:
      break;
  }
  return "a window, if the file has one";
}

std::string ProvenBy(const Architecture& architecture) {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) {
    if (family.architecture != architecture.name) continue;
    names.push_back(absl::StrCat(family.name, family.is_emulated ? " *" : ""));
  }
  return names.empty() ? "-" : absl::StrJoin(names, ", ");
}

std::string Page() {
  std::string page = kHead;
  for (const Architecture* a : planner::Architectures()) {
    EXPECT_FALSE(a->models.empty()) << a->name;
    const std::string format =
        a->chat_format.empty() ? "-" : absl::StrCat("`", a->chat_format, "`");
    absl::StrAppend(&page, "| `", a->name, "` | ", a->models, " | ", Runs(*a),
                    " | ", Context(*a), " | ", format, " | ", ProvenBy(*a),
                    " |\n");
  }
  const auto list = [](auto begin, auto end, const auto& type_of) {
    std::vector<absl::string_view> names;
    for (auto it = begin; it != end; ++it) {
      names.push_back(DTypeName(type_of(*it)));
    }
    return absl::StrJoin(names, ", ");
  };
  const planner::DeviceProfile profile = LocalCpuProfile();
  absl::StrAppend(
      &page,
      "\nTypes of weights that run on a CPU and on a CUDA device "
      "(`MatMulTest`): ",
      list(profile.storage.begin(), profile.storage.end(),
           [](const auto& rule) { return rule.dtype; }),
      ".\n\nEvery tensor of a file may have a type of its own. Types of keys "
      "and values that run on both (`AttentionTest`): ",
      list(profile.kv_types.begin(), profile.kv_types.end(),
           [](DType type) { return type; }),
      ".\n");
  return page;
}

TEST(ModelsPageTest, SaysWhatTheSpecificationsSay) {
  const std::string page = Page();
  if (std::getenv("PLIMSOLL_WRITE_DOCS") != nullptr) {
    std::ofstream(kPath) << page;
  }
  EXPECT_EQ(ReadFile(kPath), page)
      << kPath << " is not what the specifications say; renew it as it says";
}

}  // namespace
}  // namespace plimsoll::worker
