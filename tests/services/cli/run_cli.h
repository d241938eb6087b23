// Runs `plimsoll` in the test's own process.
#ifndef PLIMSOLL_TESTS_SERVICES_CLI_RUN_CLI_H_
#define PLIMSOLL_TESTS_SERVICES_CLI_RUN_CLI_H_

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::cli {

struct CliResult {
  int code;
  std::string out;
  std::string err;
};

// Streams that are no terminals, in a UTF-8 locale.
CliResult RunCli(const std::vector<std::string>& args);
CliResult RunCliWithInput(const std::vector<std::string>& args,
                          const std::string& input);

// A model's file in the cache, or nothing if it was not fetched.
std::optional<std::string> FindModel(const std::string& name);

inline constexpr char kSmolLm2[] = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr char kGemma3[] = "gemma-3-270m-q4_k_m.gguf";

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_TESTS_SERVICES_CLI_RUN_CLI_H_
