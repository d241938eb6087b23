// Runs `plimsoll` in the test's own process.
#include "tests/services/cli/run_cli.h"

#include <filesystem>
#include <sstream>
#include <system_error>

#include "services/cli/commands/cli.h"
#include "services/cli/flags/model_path.h"

namespace plimsoll::cli {

CliResult RunCli(const std::vector<std::string>& args) {
  return RunCliWithInput(args, "");
}

CliResult RunCliWithInput(const std::vector<std::string>& args,
                          const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  Style style;
  style.utf8 = true;
  Streams streams{in, out, err, style, style};
  const int code = Run(args, streams);
  return {code, out.str(), err.str()};
}

std::optional<std::string> FindModel(const std::string& name) {
  const std::string path =
      (std::filesystem::path(CacheDirectory()) / name).string();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  return path;
}

}  // namespace plimsoll::cli
