#include "worker/text/grammar/mask_walk.h"

#include <algorithm>
#include <optional>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {
namespace {

constexpr PlainText::Kind kKinds[] = {PlainText::kPlain, PlainText::kWord};

void SetBit(std::span<uint64_t> bits, int32_t id) {
  const auto at = static_cast<uint32_t>(id);
  bits[at / 64] |= uint64_t{1} << (at % 64);
}

void ClearBit(std::span<uint64_t> bits, int32_t id) {
  const auto at = static_cast<uint32_t>(id);
  bits[at / 64] &= ~(uint64_t{1} << (at % 64));
}

}  // namespace

MaskWalk::MaskWalk(const TokenIndex& index)
    : index_(index), nodes_(size_t{index.longest_token_bytes()} + 1) {}

bool MaskWalk::Fill(GrammarState& grammar, std::span<uint64_t> bits) {
  nodes_[0] = {grammar.current(), {}};
  nodes_[0].at.fill(PlainText::kStart);
  n_bound_places_ = 0;
  std::optional<uint32_t> room;
  for (const Kind kind : kKinds) {
    room = grammar.PlainRoom(grammar.current(), kind, PlainText::kStart,
                             PlainTokens::kMaxChars);
    if (!room) continue;
    const PlainTokens& tokens = index_.plain(kind);
    std::ranges::copy(tokens.UpTo(*room), bits.begin());
    WalkEach(grammar, {tokens.others(), {0, tokens.others().size()}}, 0, bits);
    for (const Range& range : tokens.rest()) {
      WalkAll(grammar, range, std::nullopt, bits);
    }
    break;
  }
  if (!room) {
    const std::optional<Kind> set = MostlyFreeKind(grammar);
    const PlainTokens& tokens = index_.plain(set.value_or(Kind::kPlain));
    std::ranges::copy(tokens.UpTo(set ? PlainTokens::kMaxChars : 0),
                      bits.begin());
    WalkAll(grammar, {0, index_.size()}, set, bits);
  }
  return std::ranges::any_of(bits, [](uint64_t word) { return word != 0; });
}

MaskWalk::Node MaskWalk::NodeAfter(GrammarState& grammar, const Node& node,
                                   uint8_t byte) const {
  Node after = {grammar.Next(node.state, byte), {}};
  for (const Kind kind : kKinds) {
    after.at[kind] = PlainText::After(kind, node.at[kind], byte);
  }
  return after;
}

bool MaskWalk::IsFree(GrammarState& grammar, const Node& node,
                      Kind kind) const {
  return node.at[kind] != PlainText::kOutside &&
         grammar.PlainRoom(node.state, kind, node.at[kind],
                           PlainTokens::kMaxChars) == PlainTokens::kMaxChars;
}

std::optional<PlainText::Kind> MaskWalk::FreeKind(
    GrammarState& grammar, const Node& node, std::optional<Kind> set) const {
  if (node.state == GrammarState::kDead) return std::nullopt;
  if (IsFree(grammar, node, Kind::kPlain)) return Kind::kPlain;
  // Not all plain text is of words.
  if (set == Kind::kPlain) return std::nullopt;
  if (IsFree(grammar, node, Kind::kWord)) return Kind::kWord;
  return std::nullopt;
}

std::optional<PlainText::Kind> MaskWalk::MostlyFreeKind(
    GrammarState& grammar) const {
  // Tokens that are set at once, less those that are set in vain.
  std::array<int64_t, PlainText::kKinds> n_more = {};
  for (size_t i = 0; i < 256; ++i) {
    const auto byte = static_cast<uint8_t>(i);
    if (!grammar.MayFollow(grammar.current(), byte)) {
      for (const Kind kind : kKinds) {
        n_more[kind] -= index_.plain(kind).CountByFirst(byte);
      }
      continue;
    }
    if (index_.plain(Kind::kPlain).CountByFirst(byte) == 0) continue;
    const Node node = NodeAfter(grammar, nodes_[0], byte);
    if (node.state == GrammarState::kDead) continue;
    for (const Kind kind : kKinds) {
      if (!IsFree(grammar, node, kind)) continue;
      n_more[kind] += index_.plain(kind).CountByFirst(byte);
    }
  }
  const auto most = std::ranges::max_element(n_more);
  if (*most <= 0) return std::nullopt;
  return static_cast<Kind>(most - n_more.begin());
}

void MaskWalk::SetPlain(Kind kind, Range range,
                        std::span<uint64_t> bits) const {
  const PlainTokens& tokens = index_.plain(kind);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int32_t id = index_.list().Id(i);
    if (tokens.Has(id)) SetBit(bits, id);
  }
}

void MaskWalk::ClearPlain(Kind kind, Range range,
                          std::span<uint64_t> bits) const {
  const PlainTokens& tokens = index_.plain(kind);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int32_t id = index_.list().Id(i);
    if (tokens.Has(id)) ClearBit(bits, id);
  }
}

void MaskWalk::WalkAll(GrammarState& grammar, Range range,
                       std::optional<Kind> set, std::span<uint64_t> bits) {
  for (int64_t i = range.begin; i < range.end;) {
    if (n_bound_places_ >= kMaxBoundPlaces ||
        (!set && grammar.is_plain_exhausted())) {
      if (set) ClearPlain(*set, {i, range.end}, bits);
      WalkEach(grammar, {index_.list(), {i, range.end}}, 0, bits);
      return;
    }
    const TokenIndex::Entry entry = index_.At(i);
    uint32_t depth = entry.n_shared;
    std::optional<Kind> free;
    bool is_dead = false;
    for (const char one : entry.bytes) {
      const auto byte = static_cast<uint8_t>(one);
      const Node& node = nodes_[depth];
      is_dead = !grammar.MayFollow(node.state, byte);
      if (is_dead) break;
      // Nothing begins with the last byte's node if the next entry does not.
      const bool is_leaf =
          depth + 1 == entry.n_shared + entry.bytes.size() &&
          (i + 1 == index_.size() || index_.list().Shared(i + 1) <= depth);
      if (is_leaf) break;
      nodes_[depth + 1] = NodeAfter(grammar, node, byte);
      free = FreeKind(grammar, nodes_[++depth], set);
      n_bound_places_ = free ? 0 : n_bound_places_ + 1;
      if (free) break;
    }
    if (is_dead) {
      // Tokens with the same beginning, up to the byte that may not follow, may
      // not follow either.
      const int64_t end = index_.SkipTo(i + 1, depth);
      if (set) ClearPlain(*set, {i, end}, bits);
      i = end;
    } else if (free) {
      const int64_t end = index_.SkipTo(i + 1, depth - 1);
      if (free != set) SetPlain(*free, {i, end}, bits);
      const PlainTokens& tokens = index_.plain(*free);
      WalkEach(grammar,
               {tokens.others(), {tokens.OtherFrom(i), tokens.OtherFrom(end)}},
               depth, bits);
      i = end;
    } else {
      // A token with the text of the token before is here, too.
      SetBit(bits, entry.id);
      ++i;
    }
  }
}

void MaskWalk::WalkEach(GrammarState& grammar, const Part& part,
                        uint32_t n_known, std::span<uint64_t> bits) {
  const TokenList& list = part.list;
  const Range range = part.range;
  for (int64_t i = range.begin; i < range.end;) {
    const TokenList::Entry entry = list.At(i);
    // Only the first one may have bytes that are known.
    uint32_t depth = std::max(entry.n_shared, n_known);
    bool is_dead = false;
    for (const char one : entry.bytes.substr(depth - entry.n_shared)) {
      const auto byte = static_cast<uint8_t>(one);
      const State state = nodes_[depth].state;
      is_dead = !grammar.MayFollow(state, byte);
      if (is_dead) break;
      const bool is_leaf = depth + 1 == entry.n_shared + entry.bytes.size() &&
                           (i + 1 == range.end || list.Shared(i + 1) <= depth);
      if (is_leaf) break;
      nodes_[++depth].state = grammar.Next(state, byte);
    }
    if (is_dead) {
      i = std::min(range.end, list.SkipTo(i + 1, depth));
    } else {
      SetBit(bits, entry.id);
      ++i;
    }
  }
}

int64_t MaskWalk::MemoryBytes() const {
  return static_cast<int64_t>(nodes_.capacity() * sizeof(Node));
}

}  // namespace plimsoll::worker
