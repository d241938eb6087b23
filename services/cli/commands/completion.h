// Completion scripts for shells, made from the tree of commands.
#ifndef PLIMSOLL_SERVICES_CLI_COMMANDS_COMPLETION_H_
#define PLIMSOLL_SERVICES_CLI_COMMANDS_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// What may stand in the place of a value.
struct ValueHint {
  bool is_file = false;
  bool is_list = false;             // several, parted by commas
  std::vector<std::string> values;  // words that mean something
};

// Reads an option's type name as the help shows it: words in lower case are
// values ("N|auto|max"), FILE is a file, TYPE an element type, "..." a list.
ValueHint HintOf(absl::string_view type_name);

// A script for "bash", "zsh" or "fish" that completes commands, flags, values
// and files of `root`.
std::string CompletionScript(const CLI::App& root, absl::string_view shell);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_COMMANDS_COMPLETION_H_
