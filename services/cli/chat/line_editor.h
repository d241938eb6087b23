// Reads lines from a terminal, with editing and history by libedit.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_LINE_EDITOR_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_LINE_EDITOR_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// The source of a chat's lines.
class LineReader {
 public:
  virtual ~LineReader() = default;
  // Reads the next line, without its line feed, behind `prompt`. Returns
  // nothing at the end. Errors: InterruptedError after Ctrl-C, which drops the
  // line, and after a signal that asks the process to end; any other error
  // means that no more can be read.
  virtual absl::StatusOr<std::optional<std::string>> Read(
      const std::string& prompt) = 0;
};

// Makes a reader of the terminal at standard input. The prompt and the typed
// text go to standard error, whose style is `style`. Lines are kept in the
// history at `history_path`; empty: no history. Sets the process's character
// locale. Returns null if libedit cannot use the terminal.
std::unique_ptr<LineReader> NewLineEditor(const std::string& history_path,
                                          const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_LINE_EDITOR_H_
