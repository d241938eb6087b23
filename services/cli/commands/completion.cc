// `plimsoll completion`: writes scripts for shells. They are made from the tree
// of commands, so that no list is kept by hand.
#include "services/cli/commands/completion.h"

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/dtype.h"
#include "services/cli/commands/commands.h"

namespace plimsoll::cli {
namespace {

constexpr char kCompletionDescription[] =
    "Print a completion script for bash, zsh or fish\n"
    "It completes commands, flags, their values and files.";

constexpr char kCompletionFooter[] =
    "Examples:\n"
    "  source <(plimsoll completion bash)      # or add it to ~/.bashrc\n"
    "  plimsoll completion zsh > ~/.zfunc/_plimsoll\n"
    "  plimsoll completion fish > ~/.config/fish/completions/plimsoll.fish";

struct Flag {
  std::vector<std::string> names;  // with dashes
  std::string help;
  bool has_value;
  ValueHint hint;
};

// One command and what may follow its name.
struct Node {
  std::string path;  // "models describe"; empty for the root
  std::vector<std::pair<std::string, std::string>> commands;  // name, help
  std::vector<Flag> flags;
  ValueHint operand;
};

void AddFlags(const CLI::App& app, Node& node) {
  for (const CLI::Option* option : app.get_options()) {
    const ValueHint hint = HintOf(option->get_type_name());
    if (option->get_positional()) node.operand = hint;
    Flag flag{
        {}, option->get_description(), option->get_expected_max() > 0, hint};
    for (const std::string& name : option->get_snames()) {
      flag.names.push_back(absl::StrCat("-", name));
    }
    for (const std::string& name : option->get_lnames()) {
      flag.names.push_back(absl::StrCat("--", name));
    }
    if (!flag.names.empty()) node.flags.push_back(std::move(flag));
  }
}

// Lists `app` and all commands below it. Flags of the root may follow any
// command, but every command has its own --help.
void AddNodes(const CLI::App& app, const std::string& path, const Node* root,
              std::vector<Node>& nodes) {
  Node node;
  node.path = path;
  AddFlags(app, node);
  const size_t n_own = node.flags.size();
  for (size_t i = 0; root != nullptr && i < root->flags.size(); ++i) {
    const Flag& flag = root->flags[i];
    bool is_own = false;
    for (size_t j = 0; j < n_own; ++j) {
      is_own |= node.flags[j].names == flag.names;
    }
    if (!is_own) node.flags.push_back(flag);
  }
  const auto commands =
      app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : commands) {
    const std::vector<std::string> lines =
        absl::StrSplit(command->get_description(), '\n');
    node.commands.emplace_back(command->get_name(), lines.front());
  }
  const Node at_root = root == nullptr ? node : *root;
  nodes.push_back(std::move(node));
  for (const CLI::App* command : commands) {
    AddNodes(*command,
             absl::StrCat(path, path.empty() ? "" : " ", command->get_name()),
             &at_root, nodes);
  }
}

// Returns the patterns for the words before the cursor: "models describe" after
// "models" is 'models describe', and a command of the root is ' plan'.
std::string CommandPatterns(const std::vector<Node>& nodes,
                            absl::string_view separator) {
  std::vector<std::string> patterns;
  for (const Node& node : nodes) {
    for (const auto& [name, help] : node.commands) {
      patterns.push_back(absl::StrCat("'", node.path, " ", name, "'"));
    }
  }
  return absl::StrJoin(patterns, separator);
}

std::string FlagNames(const Node& node) {
  std::vector<std::string> names;
  for (const Flag& flag : node.flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return absl::StrJoin(names, " ");
}

std::string CommandNames(const Node& node) {
  std::string names;
  for (const auto& [name, help] : node.commands) {
    absl::StrAppend(&names, name, " ");
  }
  return names;
}

// Returns patterns such as 'path:--flag' | 'path:-f', which bash and zsh both
// match.
std::string FlagPatterns(const Node& node, const Flag& flag) {
  return absl::StrJoin(flag.names, " | ",
                       [&node](std::string* out, const std::string& name) {
                         absl::StrAppend(out, "'", node.path, ":", name, "'");
                       });
}

// Puts text in single quotes, for any of the shells.
std::string Quoted(absl::string_view text, absl::string_view quote) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", quote}}), "'");
}

// Returns the cases of every flag that has a value. `value` writes the shell's
// code for it.
std::string ValueCases(const std::vector<Node>& nodes,
                       absl::FunctionRef<std::string(const ValueHint&)> value) {
  std::string out;
  for (const Node& node : nodes) {
    for (const Flag& flag : node.flags) {
      if (!flag.has_value) continue;
      absl::StrAppend(&out, "    ", FlagPatterns(node, flag), ") ",
                      value(flag.hint), " ;;\n");
    }
  }
  return out;
}

// Returns bash code that completes a flag's value. BashWords below completes
// the words of each command.
std::string BashValue(const ValueHint& hint) {
  std::vector<std::string> out;
  if (hint.is_file) out.push_back("files=1");
  if (hint.is_list) out.push_back("list=1");
  if (!hint.values.empty()) {
    out.push_back(
        absl::StrCat("words='", absl::StrJoin(hint.values, " "), "'"));
  }
  return absl::StrJoin(out, " ");
}

std::string BashWords(const std::vector<Node>& nodes) {
  std::string out;
  for (const Node& node : nodes) {
    absl::StrAppend(&out, "      '", node.path, "') words='",
                    CommandNames(node), FlagNames(node));
    for (const std::string& value : node.operand.values) {
      absl::StrAppend(&out, " ", value);
    }
    absl::StrAppend(&out, node.operand.is_file ? "' files=1 ;;\n" : "' ;;\n");
  }
  return out;
}

std::string Bash(const std::vector<Node>& nodes) {
  return absl::StrCat(
      "# bash completion of plimsoll.\n"
      "_plimsoll() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command= words= files= list= prefix= i IFS=$' \\t\\n'\n"
      "  if [[ $cur == = ]]; then\n"
      "    cur=\n"
      "  elif [[ $prev == = ]]; then\n"
      "    prev=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  fi\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$command ${COMP_WORDS[i]}\" in\n"
      "      ",
      CommandPatterns(nodes, " | "),
      ")\n"
      "        command=${command:+$command }${COMP_WORDS[i]} ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$command:$prev\" in\n",
      ValueCases(nodes, BashValue),
      "    *)\n"
      "      case $command in\n",
      BashWords(nodes),
      "      esac\n"
      "      [[ $cur == -* ]] && files= ;;\n"
      "  esac\n"
      "  if [[ $list && $cur == *,* ]]; then\n"
      "    prefix=${cur%,*},\n"
      "    cur=${cur##*,}\n"
      "  fi\n"
      "  COMPREPLY=($(compgen -P \"$prefix\" -W \"$words\" -- \"$cur\"))\n"
      "  if [[ $files ]]; then\n"
      "    local IFS=$'\\n'\n"
      "    compopt -o filenames 2>/dev/null\n"
      "    COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
      "  fi\n"
      "}\n"
      "complete -F _plimsoll plimsoll\n");
}

// Returns the text name:help, which _describe takes.
std::string Described(absl::string_view name, absl::string_view help) {
  return Quoted(
      absl::StrCat(name, ":", absl::StrReplaceAll(help, {{":", "\\:"}})),
      "'\\''");
}

// Returns zsh code that completes a flag's value. ZshWords below completes the
// words of each command.
std::string ZshValue(const ValueHint& hint) {
  return absl::StrCat(hint.is_list ? "compset -P '*,'; " : "",
                      hint.is_file ? "_files" : "compadd -- ",
                      absl::StrJoin(hint.values, " "), "; return");
}

std::string ZshWords(const std::vector<Node>& nodes) {
  std::string out;
  for (const Node& node : nodes) {
    absl::StrAppend(&out, "    '", node.path, "')\n      commands=(");
    for (const auto& [name, help] : node.commands) {
      absl::StrAppend(&out, "\n        ", Described(name, help));
    }
    absl::StrAppend(&out, ")\n      flags=(");
    for (const Flag& flag : node.flags) {
      for (const std::string& name : flag.names) {
        absl::StrAppend(&out, "\n        ", Described(name, flag.help));
      }
    }
    absl::StrAppend(&out, ")\n");
    if (node.operand.is_file) absl::StrAppend(&out, "      _files\n");
    if (!node.operand.values.empty()) {
      absl::StrAppend(&out, "      compadd -- ",
                      absl::StrJoin(node.operand.values, " "), "\n");
    }
    absl::StrAppend(&out, "      ;;\n");
  }
  return out;
}

std::string Zsh(const std::vector<Node>& nodes) {
  return absl::StrCat(
      "#compdef plimsoll\n"
      "# zsh completion of plimsoll.\n"
      "_plimsoll() {\n"
      "  local command= word prev=${words[CURRENT-1]}\n"
      "  local -a commands flags\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    case \"$command $word\" in\n"
      "      ",
      CommandPatterns(nodes, " | "),
      ")\n"
      "        command=${command:+$command }$word ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$command:$prev\" in\n",
      ValueCases(nodes, ZshValue),
      "  esac\n"
      "  case $command in\n",
      ZshWords(nodes),
      "  esac\n"
      "  (( $#commands )) && _describe command commands\n"
      "  _describe flag flags\n"
      "}\n"
      "if [[ $funcstack[1] == _plimsoll ]]; then\n"
      "  _plimsoll \"$@\"\n"
      "else\n"
      "  compdef _plimsoll plimsoll\n"
      "fi\n");
}

std::string FishFlag(const Flag& flag) {
  std::string out;
  for (absl::string_view name : flag.names) {
    absl::StrAppend(&out, absl::StartsWith(name, "--") ? " -l " : " -s ",
                    name.substr(absl::StartsWith(name, "--") ? 2 : 1));
  }
  if (flag.has_value) absl::StrAppend(&out, flag.hint.is_file ? " -rF" : " -x");
  if (!flag.hint.values.empty()) {
    absl::StrAppend(&out, " -a '", absl::StrJoin(flag.hint.values, " "), "'");
  }
  return absl::StrCat(out, " -d ", Quoted(flag.help, "\\'"));
}

std::string Fish(const std::vector<Node>& nodes) {
  std::string out = absl::StrCat(
      "# fish completion of plimsoll.\n"
      "function __plimsoll_at\n"
      "  set -l command\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$command $word\"\n"
      "      case ",
      CommandPatterns(nodes, " "),
      "\n"
      "        set command (string trim \"$command $word\")\n"
      "    end\n"
      "  end\n"
      "  test \"$command\" = \"$argv\"\n"
      "end\n"
      "complete -c plimsoll -f\n");
  for (const Node& node : nodes) {
    const std::string line =
        absl::StrCat("complete -c plimsoll -n '__plimsoll_at ", node.path, "'");
    for (const auto& [name, help] : node.commands) {
      absl::StrAppend(&out, line, " -a ", name, " -d ", Quoted(help, "\\'"),
                      "\n");
    }
    for (const Flag& flag : node.flags) {
      absl::StrAppend(&out, line, FishFlag(flag), "\n");
    }
    if (node.operand.is_file) absl::StrAppend(&out, line, " -F\n");
    if (!node.operand.values.empty()) {
      absl::StrAppend(&out, line, " -a '",
                      absl::StrJoin(node.operand.values, " "), "'\n");
    }
  }
  return out;
}

}  // namespace

ValueHint HintOf(absl::string_view type_name) {
  ValueHint hint;
  hint.is_list = absl::StrContains(type_name, "...");
  for (absl::string_view word : absl::StrSplit(
           type_name, absl::ByAnyChar("|,/[]."), absl::SkipEmpty())) {
    if (word == "FILE") {
      hint.is_file = true;
    } else if (word == "TYPE") {
      if (absl::StrContains(absl::StrJoin(hint.values, " "), "f32")) continue;
      for (const DTypeInfo& info : kDTypes) {
        // Weights and keys are never integers or doubles.
        const bool is_number =
            info.dtype >= DType::kI8 && info.dtype <= DType::kF64;
        if (!is_number) hint.values.emplace_back(info.name);
      }
    } else if (absl::ascii_islower(static_cast<unsigned char>(word[0]))) {
      hint.values.emplace_back(word);
    }
  }
  return hint;
}

std::string CompletionScript(const CLI::App& root, absl::string_view shell) {
  std::vector<Node> nodes;
  AddNodes(root, "", nullptr, nodes);
  if (shell == "bash") return Bash(nodes);
  return shell == "zsh" ? Zsh(nodes) : Fish(nodes);
}

void AddCompletion(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("completion", kCompletionDescription);
  command->footer(kCompletionFooter);
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->required()
      ->check(
          [](const std::string& text) -> std::string {
            if (text == "bash" || text == "zsh" || text == "fish") return "";
            return "there are bash, zsh and fish";
          },
          "");
  command->callback([shell, &app, &commands] {
    commands.run = [shell, &app, &commands] {
      commands.streams.out << CompletionScript(app, *shell);
      return absl::OkStatus();
    };
  });
}

}  // namespace plimsoll::cli
