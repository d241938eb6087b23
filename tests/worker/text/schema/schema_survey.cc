// Prints what becomes of many schemas: accepted, refused and why, wrong.
// A file is a list of schemas, one a line, or a file of the standard's suite.
// With --say N it prints N texts of each schema's grammar instead, as JSON with
// the schema: what another validator can check.
// With --free members come in any order, with any spelling.
// Usage: schema_survey [--say N] [--free] FILE...
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>

#include "base/json.h"
#include "tests/worker/text/grammar/grammar_match.h"
#include "worker/text/schema/schema_check.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {
namespace {

struct Tally {
  int accepted = 0, refused = 0, right = 0, narrow = 0, wrong = 0;
};

int n_to_say = 0;
bool is_free = false;

void Say(const SchemaJson& schema, const SchemaOptions& options) {
  const auto check = SchemaCheck::Make(schema.dump(), options);
  if (!check.ok()) return;
  std::mt19937 random(7);
  for (int i = 0; i < n_to_say; ++i) {
    const auto text = RandomText((*check)->grammar(), random, 3'000);
    if (!text) continue;
    std::cout << SchemaJson{{"schema", schema}, {"text", *text}}.dump() << "\n";
  }
}

void Look(const std::string& name, const SchemaJson& schema,
          const SchemaJson& tests, SchemaOptions options, Tally& tally) {
  options.any_order = is_free;
  options.any_spelling = is_free;
  if (n_to_say > 0) return Say(schema, options);
  auto check = SchemaCheck::Make(schema.dump(), options);
  if (!check.ok()) {
    ++tally.refused;
    std::cout << "REFUSED " << name << " " << check.status().message() << "\n";
    return;
  }
  ++tally.accepted;
  for (const SchemaJson& test : tests) {
    const std::string text = test["data"].dump();
    const bool accepted = (*check)->Check(text).is_accepted;
    if (accepted == test["valid"].get<bool>()) {
      ++tally.right;
    } else {
      ++(accepted ? tally.wrong : tally.narrow);
      std::cout << (accepted ? "WRONG " : "NARROW ") << name << " "
                << test.value("description", "") << " " << text.substr(0, 300)
                << "\n";
    }
  }
}

}  // namespace
}  // namespace plimsoll::worker

int main(int argc, char** argv) {
  using plimsoll::worker::SchemaJson;
  plimsoll::worker::Tally tally;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--say" && i + 1 < argc) {
      plimsoll::worker::n_to_say = std::stoi(argv[++i]);
      continue;
    }
    if (name == "--free") {
      plimsoll::worker::is_free = true;
      continue;
    }
    std::ifstream in(name);
    if (name.ends_with(".jsonl")) {
      for (std::string line; std::getline(in, line);) {
        const SchemaJson one = SchemaJson::parse(line);
        Look(one["name"], one["schema"], one["tests"], {}, tally);
      }
      continue;
    }
    const bool asserts = name.find("optional/format") != std::string::npos;
    for (const SchemaJson& group : SchemaJson::parse(in)) {
      Look(name.substr(name.rfind('/') + 1) + ": " +
               group["description"].get<std::string>(),
           group["schema"], group["tests"], {.ignore_formats = !asserts},
           tally);
    }
  }
  if (plimsoll::worker::n_to_say > 0) return 0;
  std::printf("accepted %d refused %d; right %d narrow %d wrong %d\n",
              tally.accepted, tally.refused, tally.right, tally.narrow,
              tally.wrong);
}
