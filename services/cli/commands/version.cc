// `plimsoll version`: shows what this binary consists of.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/version_info.h>

#include <memory>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/path_timing.h"
#include "kernels/cpu/target.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

std::vector<std::pair<std::string, std::string>> Facts() {
  const int protobuf = GOOGLE_PROTOBUF_VERSION;
  kernels::TimeCpuTargets();  // a load does this too
  return {
      {"version", PLIMSOLL_VERSION},
      {"build_type", PLIMSOLL_BUILD_TYPE},
      {"compiler", __VERSION__},
      {"cpu", kernels::CpuBrand()},
      {"cpu_target", kernels::CpuTarget()},
      {"grpc", GRPC_CPP_VERSION_STRING},
      {"protobuf",
       absl::StrCat(protobuf / 1'000'000, ".", protobuf / 1'000 % 1'000, ".",
                    protobuf % 1'000)},
#ifdef ABSL_LTS_RELEASE_VERSION
      {"abseil", absl::StrCat(ABSL_LTS_RELEASE_VERSION)},
#endif
  };
}

absl::Status RunVersion(const std::string& output, Streams& streams) {
  if (output == "json") {
    google::protobuf::Struct object;
    for (const auto& [name, value] : Facts()) {
      (*object.mutable_fields())[name].set_string_value(value);
    }
    return PrintJson(object, streams.out);
  }
  Table table({{"plimsoll"}, {PLIMSOLL_VERSION}});
  for (const auto& [name, value] : Facts()) {
    if (name != "version") table.AddRow({name, value});
  }
  streams.out << table.Render(streams.out_style);
  return absl::OkStatus();
}

}  // namespace

void AddVersion(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand(
      "version", "Print version, build and the instruction path in use");
  auto output = std::make_shared<std::string>();
  AddOutput(*command, output.get(), {"table", "json"});
  command->callback([output, &commands] {
    commands.run = [output, &commands] {
      return RunVersion(*output, commands.streams);
    };
  });
}

}  // namespace plimsoll::cli
