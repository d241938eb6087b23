// Any grammar, regular expression or schema is compiled or refused, and what is
// compiled can be walked within its limits. The first byte says which it is:
// r, s (o with options), or anything else for GBNF.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "worker/text/grammar/gbnf.h"
#include "worker/text/grammar/grammar_state.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/schema/schema_grammar.h"

namespace plimsoll::worker {
namespace {

constexpr int kWalkBytes = 200;

absl::StatusOr<std::shared_ptr<const Grammar>> Compile(char kind,
                                                       absl::string_view text) {
  if (kind == 'r') return CompileRegex(text);
  if (kind == 's') return CompileJsonSchema(text);
  if (kind == 'o') {
    ASSIGN_OR_RETURN(CompiledSchema compiled,
                     CompileSchema(text, {.closed_objects = true,
                                          .any_order = true,
                                          .any_spelling = true}));
    return std::move(compiled.grammar);
  }
  return CompileGbnf(text);
}

// Every state but a dead one can go on, whatever its grammar is.
void Walk(const std::shared_ptr<const Grammar>& grammar, std::mt19937& random) {
  GrammarState state(grammar);
  for (int i = 0; i < kWalkBytes; ++i) {
    state.BeginStep();
    std::vector<char> bytes;
    for (const uint8_t byte : grammar->class_bytes) {
      if (state.MayFollow(state.current(), byte)) {
        bytes.push_back(static_cast<char>(byte));
      }
    }
    if (bytes.empty()) {
      PLIMSOLL_CHECK(state.Accepts(state.current()),
                     "a state that is not the end goes on");
      return;
    }
    const char byte = bytes[random() % bytes.size()];
    PLIMSOLL_CHECK(state.Advance(absl::string_view(&byte, 1)),
                   "what may follow is taken");
  }
}

}  // namespace
}  // namespace plimsoll::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const auto grammar = plimsoll::worker::Compile(input[0], input.substr(1));
  if (!grammar.ok()) {
    PLIMSOLL_CHECK(
        grammar.status().code() == absl::StatusCode::kInvalidArgument,
        "a constraint that is refused is the request's fault");
    return 0;
  }
  std::mt19937 random(static_cast<uint32_t>(size));
  plimsoll::worker::Walk(*grammar, random);
  return 0;
}
