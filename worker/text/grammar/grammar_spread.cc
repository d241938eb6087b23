#include "worker/text/grammar/grammar_spread.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

using Op = GrammarInstruction::Op;

// Counts places by rules and by the copies that called them. Places that a text
// stands at together and that differ in their copies are an antichain: fixing
// all copies but those of the longest chain leaves at most one of them.
class PlaceCounter {
 public:
  explicit PlaceCounter(const Grammar& grammar) : grammar_(grammar) {}

  struct Counts {
    int64_t written_out = 0;
    int64_t at_once = 0;
  };
  // Stops when both counts are beyond their limits.
  Counts Count() {
    Add(grammar_.start, 1, 1);
    return counts_;
  }

 private:
  // A rule's own instructions; the copies of one chain count together.
  struct Body {
    std::map<uint32_t, int64_t> places;  // places that take a byte, by chain
    // Keyed by the chain of what follows and the rule that is called.
    std::map<std::pair<uint32_t, uint32_t>, std::set<uint32_t>> calls;
  };

  const Body& BodyOf(uint32_t entry) {
    const auto [found, is_new] = bodies_.try_emplace(entry);
    if (!is_new) return found->second;
    Body& body = found->second;
    std::set<uint32_t> seen = {entry};
    std::vector<uint32_t> left = {entry};
    const auto go_on = [&](uint32_t at) {
      if (seen.insert(at).second) left.push_back(at);
    };
    while (!left.empty()) {
      const uint32_t at = left.back();
      left.pop_back();
      const GrammarInstruction& one = grammar_.program[at];
      if (one.op == Op::kReturn || one.op == Op::kFail) {
        ++body.places[at];
        continue;
      }
      go_on(one.next);
      if (one.op == Op::kSplit) go_on(one.arg);
      if (one.op == Op::kCall) {
        body.calls[{grammar_.copies[one.next].chain, one.arg}].insert(one.next);
      }
      if (one.op == Op::kByte || one.op == Op::kSet || one.op == Op::kToken) {
        ++body.places[grammar_.copies[at].chain];
      }
    }
    return body;
  }

  void Add(uint32_t entry, int64_t n_copies, int64_t longest) {
    const Body& body = BodyOf(entry);
    for (const auto& [chain, n] : body.places) {
      counts_.written_out += n_copies * n;
      counts_.at_once += n_copies * n / std::max(longest, n);
    }
    for (const auto& [call, nexts] : body.calls) {
      if (counts_.written_out > kMaxWrittenOut) return;
      const auto n = static_cast<int64_t>(nexts.size());
      Add(call.second, n_copies * n, std::max(longest, n));
    }
  }

  const Grammar& grammar_;
  std::map<uint32_t, Body> bodies_;
  Counts counts_;
};

}  // namespace

absl::Status ProveBounded(const std::shared_ptr<const Grammar>& grammar,
                          StopCheck stop) {
  RETURN_IF_ERROR(stop());
  const PlaceCounter::Counts counts = PlaceCounter(*grammar).Count();
  if (counts.written_out > kMaxWrittenOut) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it is too large: repetitions in repetitions, written out, are more "
        "than ",
        kMaxWrittenOut, " places; use smaller counts, or * and +"));
  }
  if (counts.at_once > kMaxPlaces) {
    ASSIGN_OR_RETURN(const std::optional<size_t> most,
                     GrammarState(grammar).MostStacks(kMaxProofWork, stop));
    if (!most || static_cast<int64_t>(*most) > kMaxPlaces) {
      return absl::InvalidArgumentError(absl::StrCat(
          "it is too ambiguous: one text may be at ",
          most ? absl::StrCat(*most) : absl::StrCat("up to ", counts.at_once),
          " places of it at once, more than ", kMaxPlaces,
          "; use smaller counts in {m,n}, or * and +, or have parts begin with "
          "different characters"));
    }
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
