// `plimsoll usage`: sums what tenants took, from files of receipts.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/table.h"
#include "services/cli/terminal/terminal.h"
#include "services/generation/usage_receipt.h"

namespace plimsoll::cli {
namespace {

using services::UsageReceipt;

constexpr char kUsageDescription[] =
    "Sum the usage of tenants, from the files of --usage-file\n"
    "Give all the files into which a log rotator cut the record. Days are "
    "those of UTC.";

constexpr char kUsageFooter[] =
    "Examples:\n"
    "  plimsoll usage /var/lib/plimsoll/usage.jsonl\n"
    "  plimsoll usage usage.jsonl.1 usage.jsonl --by day -o json";

// Tenants, models or days that one run sums.
constexpr size_t kMaxUsageGroups = 16'384;
constexpr double kGibHour = 1024.0 * 1024.0 * 1024.0 * 3600.0;

struct UsageFlags {
  std::vector<std::string> files;
  std::string by = "tenant";
  std::string output;
};

struct UsageSum {
  int64_t requests = 0;
  int64_t refused = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated_tokens = 0;
  double kv_byte_seconds = 0;
};

struct UsageSums {
  std::map<std::string, UsageSum> groups;
  UsageSum total;
  int64_t lost = 0;       // receipts that the server could not write
  int64_t bad_lines = 0;  // lines that are no receipts
};

// Adds to a sum, which stays at the largest number instead of passing it.
void AddUpTo(int64_t value, int64_t& sum) {
  const int64_t room = std::numeric_limits<int64_t>::max() - sum;
  sum += value < room ? value : room;
}

void AddReceipt(const UsageReceipt& receipt, UsageSum& sum) {
  if (!receipt.status.empty()) AddUpTo(1, sum.requests);
  AddUpTo(receipt.refused, sum.refused);
  AddUpTo(receipt.prompt_tokens, sum.prompt_tokens);
  AddUpTo(receipt.cached_tokens, sum.cached_tokens);
  AddUpTo(receipt.generated_tokens, sum.generated_tokens);
  sum.kv_byte_seconds +=
      static_cast<double>(receipt.kv_bytes) * receipt.seconds;
}

std::string GroupOf(const UsageReceipt& receipt, const std::string& by) {
  if (by == "model") return receipt.model;
  if (by == "tenant") return receipt.tenant;
  return absl::FormatTime("%Y-%m-%d", receipt.time, absl::UTCTimeZone());
}

absl::Status SumFile(const std::string& path, const std::string& by,
                     UsageSums& sums) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  }
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<std::string> line,
                     ReadLine(file, services::kMaxReceiptBytes));
    if (!line.has_value()) return absl::OkStatus();
    if (line->empty()) continue;
    const auto receipt = services::ParseReceipt(*line);
    if (!receipt.ok()) {
      ++sums.bad_lines;
      continue;
    }
    AddUpTo(receipt->lost, sums.lost);
    if (receipt->lost > 0) continue;
    AddReceipt(*receipt, sums.groups[GroupOf(*receipt, by)]);
    AddReceipt(*receipt, sums.total);
    if (sums.groups.size() > kMaxUsageGroups) {
      return absl::OutOfRangeError(absl::StrCat(
          path, ": has more than ", kMaxUsageGroups, " of --by ", by));
    }
  }
}

nlohmann::ordered_json UsageSumToJson(const UsageSum& sum) {
  return {{"requests", sum.requests},
          {"refused", sum.refused},
          {"prompt_tokens", sum.prompt_tokens},
          {"cached_tokens", sum.cached_tokens},
          {"generated_tokens", sum.generated_tokens},
          {"kv_byte_seconds", sum.kv_byte_seconds}};
}

void PrintUsageJson(const UsageSums& sums, const std::string& by,
                    std::ostream& out) {
  nlohmann::ordered_json json;
  json["by"] = by;
  json["groups"] = nlohmann::ordered_json::array();
  for (const auto& [name, sum] : sums.groups) {
    nlohmann::ordered_json group = {{by, name}};
    group.update(UsageSumToJson(sum));
    json["groups"].push_back(std::move(group));
  }
  json["total"] = UsageSumToJson(sums.total);
  json["lost"] = sums.lost;
  json["bad_lines"] = sums.bad_lines;
  out << json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace)
      << "\n";
}

std::vector<std::string> UsageRow(const std::string& name,
                                  const UsageSum& sum) {
  return {name.empty() ? "-" : Printable(name),
          absl::StrCat(sum.requests),
          absl::StrCat(sum.refused),
          absl::StrCat(sum.prompt_tokens),
          absl::StrCat(sum.cached_tokens),
          absl::StrCat(sum.generated_tokens),
          absl::StrFormat("%.3f", sum.kv_byte_seconds / kGibHour)};
}

void PrintUsageTable(const UsageSums& sums, const std::string& by,
                     Streams& streams) {
  if (sums.groups.empty()) {
    streams.out << "  there are no receipts\n";
  } else {
    Table table({{by},
                 {"requests", Align::kRight},
                 {"refused", Align::kRight},
                 {"prompt", Align::kRight},
                 {"cached", Align::kRight},
                 {"generated", Align::kRight},
                 {"KV GiB h", Align::kRight}});
    for (const auto& [name, sum] : sums.groups) {
      table.AddRow(UsageRow(name, sum));
    }
    if (sums.groups.size() > 1) table.AddRow(UsageRow("total", sums.total));
    streams.out << table.Render(streams.out_style);
  }
  if (sums.lost > 0) {
    streams.err << "  the server lost " << sums.lost
                << " receipts, which are in no sum\n";
  }
  if (sums.bad_lines > 0) {
    streams.err << "  " << sums.bad_lines
                << " lines are no receipts and in no sum\n";
  }
}

absl::Status RunUsage(const UsageFlags& flags, Streams& streams) {
  UsageSums sums;
  for (const std::string& path : flags.files) {
    RETURN_IF_ERROR(SumFile(path, flags.by, sums));
  }
  if (flags.output == "json") {
    PrintUsageJson(sums, flags.by, streams.out);
  } else {
    PrintUsageTable(sums, flags.by, streams);
  }
  return absl::OkStatus();
}

}  // namespace

void AddUsage(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("usage", kUsageDescription);
  command->footer(kUsageFooter);
  auto flags = std::make_shared<UsageFlags>();
  command->add_option("file", flags->files, "A file of receipts; repeatable")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--by", flags->by,
                   "What to sum by: tenant, model or day (tenant)")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"tenant", "model", "day"}));
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] {
      return RunUsage(*flags, commands.streams);
    };
  });
}

}  // namespace plimsoll::cli
