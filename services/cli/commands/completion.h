// Makes completion scripts for shells from the tree of commands.
#ifndef PLIMSOLL_SERVICES_CLI_COMMANDS_COMPLETION_H_
#define PLIMSOLL_SERVICES_CLI_COMMANDS_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// The values that an option may have.
struct ValueHint {
  bool is_file = false;
  bool is_list = false;             // several values, separated by commas
  std::vector<std::string> values;  // the possible words
};

// Reads an option's type name as the help shows it. Words in lower case are
// values ("N|auto|max"), FILE is a file, TYPE an element type, and "..." a
// list.
ValueHint HintOf(absl::string_view type_name);

// Returns a script for "bash", "zsh" or "fish" that completes commands, flags,
// values and files of `root`.
std::string CompletionScript(const CLI::App& root, absl::string_view shell);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_COMMANDS_COMPLETION_H_
