// Entry point of `plimsoll`.
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "services/cli/commands/cli.h"
#include "services/host/crash/crash_report.h"

int main(int argc, char** argv) {
  plimsoll::services::ReportCrashes();
  std::ios::sync_with_stdio(false);
  plimsoll::cli::Streams streams{std::cin,
                                 std::cout,
                                 std::cerr,
                                 plimsoll::cli::StyleOf(STDOUT_FILENO),
                                 plimsoll::cli::StyleOf(STDERR_FILENO),
                                 isatty(STDIN_FILENO) == 1};
  return plimsoll::cli::Run(std::vector<std::string>(argv + 1, argv + argc),
                            streams);
}
