// The flags for tools, and the output of tool calls.
#ifndef PLIMSOLL_SERVICES_CLI_FLAGS_TOOL_FLAGS_H_
#define PLIMSOLL_SERVICES_CLI_FLAGS_TOOL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plimsoll/v1/common.pb.h"

namespace plimsoll::cli {

struct ToolFlags {
  std::string file;   // --tools
  bool must = false;  // --must-call
};

// Adds --tools and --must-call.
void AddToolFlags(CLI::App& app, ToolFlags* flags);

// Parses the tools in `json`: an array of {"name", "description",
// "parameters"}, each of which may be wrapped as {"type": "function",
// "function": {...}}.
// Errors: kInvalidArgument naming the tool.
absl::StatusOr<std::vector<v1::Tool>> ToolsFromJson(absl::string_view json);

// Reads tools from a file, or from `in` if it is "-"; none without a file.
// Errors: those of ReadText and ToolsFromJson.
absl::StatusOr<std::vector<v1::Tool>> ReadTools(const std::string& file,
                                                std::istream& in);

// Returns {"name":...,"arguments":{...}}, or {"error":...,"text":...}, with a
// line feed.
std::string ToolCallLine(const v1::ToolCall& call);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_FLAGS_TOOL_FLAGS_H_
