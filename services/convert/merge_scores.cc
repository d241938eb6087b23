#include "services/convert/merge_scores.h"

#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"
#include "worker/text/utf8.h"

namespace plimsoll::services {
namespace {

constexpr absl::string_view kAdvice =
    ": a GGUF file cannot say in which order such tokens are merged; look for "
    "a GGUF file of the model";

// Looks for pairs that SentencePiece would merge and the file does not.
class PairCheck {
 public:
  PairCheck(const absl::flat_hash_map<absl::string_view, size_t>& ids,
            const absl::flat_hash_set<
                std::pair<absl::string_view, absl::string_view>>& pairs)
      : ids_(ids), pairs_(pairs) {}

  // Checks all ways to cut `token` into two symbols.
  absl::Status Check(absl::string_view token) const {
    size_t at = 0;
    while (at < token.size()) {
      at += CharBytes(token.substr(at));
      const absl::string_view left = token.substr(0, at);
      const absl::string_view right = token.substr(at);
      if (right.empty() || !IsSymbol(left) || !IsSymbol(right) ||
          pairs_.contains({left, right})) {
        continue;
      }
      return absl::UnimplementedError(absl::StrCat(
          "tokenizer.json: no merge joins ", planner::Quoted(left), " and ",
          planner::Quoted(right), " to their token", kAdvice));
    }
    return absl::OkStatus();
  }

 private:
  static size_t CharBytes(absl::string_view text) {
    return static_cast<size_t>(worker::ReadUtf8Front(text).bytes);
  }
  // Merging begins with single characters, whether they are tokens or not.
  bool IsSymbol(absl::string_view text) const {
    return ids_.contains(text) || CharBytes(text) == text.size();
  }

  const absl::flat_hash_map<absl::string_view, size_t>& ids_;
  const absl::flat_hash_set<std::pair<absl::string_view, absl::string_view>>&
      pairs_;
};

}  // namespace

absl::StatusOr<std::vector<float>> ScoresOfMerges(
    const std::vector<std::string>& tokens, const std::vector<bool>& is_cut_out,
    const std::vector<Merge>& merges) {
  absl::flat_hash_map<absl::string_view, size_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id) ids.emplace(tokens[id], id);
  absl::flat_hash_set<std::pair<absl::string_view, absl::string_view>> pairs;
  std::vector<float> scores(tokens.size(), 0);
  size_t last = tokens.size();  // the token that the merge before made
  float rank = 0;
  for (const Merge& merge : merges) {
    const auto it = ids.find(absl::StrCat(merge.first, merge.second));
    if (it == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tokenizer.json: merging ", planner::Quoted(merge.first), " and ",
          planner::Quoted(merge.second), " makes no token"));
    }
    pairs.insert({merge.first, merge.second});
    const size_t id = it->second;
    if (id == last || is_cut_out[id]) continue;
    if (scores[id] != 0) {
      return absl::UnimplementedError(absl::StrCat(
          "tokenizer.json: the merges that make ", planner::Quoted(tokens[id]),
          " have other merges between them", kAdvice));
    }
    last = id;
    scores[id] = -++rank;
  }
  const PairCheck check(ids, pairs);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!is_cut_out[id]) RETURN_IF_ERROR(check.Check(tokens[id]));
  }
  return scores;
}

}  // namespace plimsoll::services
