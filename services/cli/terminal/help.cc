// Writes help texts in 80 columns.
#include "services/cli/terminal/help.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/cli/terminal/table.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kNameColumns = 26;  // names up to here, then text

// Writes "  name    text", with the text wrapped beside the name or under it.
void AppendEntry(absl::string_view name, absl::string_view text,
                 std::string& out) {
  std::string line = absl::StrCat("  ", name);
  if (Columns(line) > kNameColumns) {
    absl::StrAppend(&out, line, "\n");
    line.clear();
  }
  for (const std::string& part : Wrap(text, kDefaultWidth - kNameColumns - 2)) {
    line.resize(static_cast<size_t>(kNameColumns + 2), ' ');
    absl::StrAppend(&out, line, part, "\n");
    line.clear();
  }
}

std::string OptionName(const CLI::Option& option) {
  std::string name =
      option.get_positional()
          ? option.get_name(/*positional=*/true, /*all_options=*/false)
          : option.get_name(/*positional=*/false, /*all_options=*/true);
  name = absl::StrJoin(absl::StrSplit(name, ','), ", ");
  if (option.get_expected_max() > 0 && !option.get_positional()) {
    absl::StrAppend(&name, " ", option.get_type_name());
  }
  return name;
}

void AppendOptions(const CLI::App& app, std::string& out) {
  std::vector<std::string> groups;
  const std::vector<const CLI::Option*> options = app.get_options();
  for (const CLI::Option* option : options) {
    const std::string& group = option->get_group();
    if (!group.empty() &&
        std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(group);
    }
  }
  for (const std::string& group : groups) {
    absl::StrAppend(&out, "\n", group, ":\n");
    for (const CLI::Option* option : options) {
      if (option->get_group() == group) {
        AppendEntry(OptionName(*option), option->get_description(), out);
      }
    }
  }
}

std::string Usage(const CLI::App& app) {
  std::string path = app.get_name();
  for (const CLI::App* parent = app.get_parent(); parent != nullptr;
       parent = parent->get_parent()) {
    path = absl::StrCat(parent->get_name(), " ", path);
  }
  std::string out = absl::StrCat("Usage: ", path);
  if (app.get_parent() == nullptr) return absl::StrCat(out, " COMMAND ...\n");
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      absl::StrAppend(
          &out, " ",
          option->get_name(/*positional=*/true, /*all_options=*/false));
    }
  }
  return absl::StrCat(out, " [OPTION]...\n");
}

}  // namespace

std::string HelpText(const CLI::App* app) {
  std::string out;
  for (absl::string_view paragraph :
       absl::StrSplit(app->get_description(), '\n')) {
    for (const std::string& line : Wrap(paragraph, kDefaultWidth)) {
      absl::StrAppend(&out, line, "\n");
    }
  }
  absl::StrAppend(&out, "\n", Usage(*app));
  const std::vector<const CLI::App*> commands =
      app->get_subcommands([](const CLI::App*) { return true; });
  if (!commands.empty()) absl::StrAppend(&out, "\nCommands:\n");
  for (const CLI::App* command : commands) {
    const std::vector<std::string> lines =
        absl::StrSplit(command->get_description(), '\n');
    AppendEntry(command->get_name(), lines.front(), out);
  }
  AppendOptions(*app, out);
  if (!app->get_footer().empty()) {
    absl::StrAppend(&out, "\n", app->get_footer(), "\n");
  }
  return out;
}

}  // namespace plimsoll::cli
