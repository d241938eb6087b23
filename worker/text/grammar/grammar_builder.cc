#include "worker/text/grammar/grammar_builder.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/grammar_exits.h"
#include "worker/text/grammar/plain_steps.h"

namespace plimsoll::worker {

using Op = GrammarInstruction::Op;

namespace {

// The cost of adding an expression, in units of a step.
constexpr size_t kNodeUnits = 4;

ByteSet BytesIn(const ByteRange& range) {
  ByteSet bytes;
  for (int b = range.first; b <= range.last; ++b) {
    bytes.set(static_cast<size_t>(b));
  }
  return bytes;
}

absl::Status LeftRecursion(const std::string& rule) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", rule,
                   "' begins with itself (left "
                   "recursion); write it as a repetition"));
}

}  // namespace

void GrammarBuilder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void GrammarBuilder::Spend(size_t n) {
  if (status_.ok()) status_ = stop_.Spend(static_cast<int64_t>(n));
}

GrammarBuilder::Expr GrammarBuilder::Add(Node node) {
  if (nodes_.size() > kMaxExpressions) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "it is too large: it has more than ", kMaxExpressions, " parts")));
  }
  Spend(kNodeUnits + node.literal.size() / 16);
  // An expression after an error costs nothing.
  if (!status_.ok()) return {0};
  for (const Expr part : node.parts) {
    node.depth = std::max(node.depth, At(part).depth + 1);
  }
  if (node.depth > kMaxDepth) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("expressions are nested more than ", kMaxDepth, " deep")));
    return {0};
  }
  nodes_.push_back(std::move(node));
  return {static_cast<int32_t>(nodes_.size()) - 1};
}

GrammarBuilder::Expr GrammarBuilder::Literal(absl::string_view bytes) {
  return Add({.kind = Kind::kLiteral, .literal = std::string(bytes)});
}

void GrammarBuilder::AddMark(const GrammarMark& mark) {
  if (marks_.size() == Grammar::kMaxTokens) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
        "it asks for more than ", Grammar::kMaxTokens, " tokens")));
  }
  marks_.push_back(mark);
  grammar_.tokens.push_back(mark.id);
}

// Where several marks begin alike, the longest one that is there counts.
std::vector<GrammarBuilder::Symbol> GrammarBuilder::SymbolsOf(
    absl::string_view text) const {
  std::vector<Symbol> symbols;
  while (!text.empty()) {
    size_t n_longest = 0;
    Symbol symbol = static_cast<uint8_t>(text[0]);
    for (size_t i = 0; i < marks_.size(); ++i) {
      const std::string& mark = marks_[i].text;
      if (mark.size() <= n_longest || !absl::StartsWith(text, mark)) continue;
      n_longest = mark.size();
      symbol = kFirstMark + i;
    }
    symbols.push_back(symbol);
    text.remove_prefix(std::max<size_t>(n_longest, 1));
  }
  return symbols;
}

GrammarBuilder::Expr GrammarBuilder::Marked(absl::string_view text) {
  std::vector<Expr> parts = {Literal("")};
  for (const Symbol symbol : SymbolsOf(text)) parts.push_back(AnyOf({symbol}));
  return Sequence(std::move(parts));
}

GrammarBuilder::Expr GrammarBuilder::AnyOf(const std::vector<Symbol>& symbols) {
  ByteSet bytes;
  std::vector<Expr> choices;
  for (const Symbol symbol : symbols) {
    if (symbol < kFirstMark) {
      bytes.set(symbol);
    } else {
      const auto number = static_cast<uint32_t>(symbol - kFirstMark);
      choices.push_back(Add({.kind = Kind::kToken, .arg = number}));
    }
  }
  if (bytes.count() == 1 && choices.empty()) {
    const auto byte = static_cast<char>(symbols[0]);
    return Literal({&byte, 1});
  }
  if (bytes.any()) choices.push_back(Set(bytes));
  return Choice(std::move(choices));
}

GrammarBuilder::Expr GrammarBuilder::Set(const ByteSet& set) {
  const auto n_sets = static_cast<uint32_t>(grammar_.sets.size());
  const auto [found, is_new] = set_numbers_.try_emplace(set, n_sets);
  if (is_new) grammar_.sets.push_back(set);
  return Add({.kind = Kind::kSet, .arg = found->second});
}

GrammarBuilder::Expr GrammarBuilder::Chars(const CodePoints& set) {
  if (!status_.ok()) return {0};
  if (set.size() == 1 && set[0].first == set[0].last &&
      Normalized(set).size() == 1) {
    std::string bytes;
    AppendUtf8(set[0].first, bytes);
    return Literal(bytes);
  }
  return OneOf(Utf8Sequences(set));
}

// The recursion is as deep as a character has bytes.
GrammarBuilder::Expr GrammarBuilder::OneOf(
    const std::vector<ByteSequence>& sequences) {
  ByteSet single;
  // Sequences with the same last byte share the instruction for it.
  std::map<ByteRange, std::vector<ByteSequence>> fronts;
  for (const ByteSequence& sequence : sequences) {
    if (sequence.size() > 1) {
      fronts[sequence.back()].emplace_back(sequence.begin(),
                                           sequence.end() - 1);
    } else {
      single |= BytesIn(sequence[0]);
    }
  }
  std::vector<Expr> choices;
  if (single.any()) choices.push_back(Set(single));
  for (const auto& [last, front] : fronts) {
    choices.push_back(Sequence({OneOf(front), Set(BytesIn(last))}));
  }
  return Choice(std::move(choices));
}

GrammarBuilder::Expr GrammarBuilder::Sequence(std::vector<Expr> parts) {
  if (!status_.ok()) return {0};
  // Adjacent literals become one literal.
  std::vector<Expr> joined;
  for (size_t i = 0; i < parts.size();) {
    std::string bytes;
    const size_t begin = i;
    while (i < parts.size() && At(parts[i]).kind == Kind::kLiteral) {
      bytes += At(parts[i++]).literal;
    }
    if (i - begin > 1) {
      joined.push_back(Literal(bytes));
    } else {
      joined.push_back(parts[i > begin ? begin : i++]);
    }
  }
  if (joined.size() == 1) return joined[0];
  return Add({.kind = Kind::kSequence, .parts = std::move(joined)});
}

GrammarBuilder::Expr GrammarBuilder::Choice(std::vector<Expr> choices) {
  if (choices.empty()) return Set(ByteSet());
  if (!status_.ok()) return {0};
  // Literals are grouped, so that a common beginning is stored once.
  const auto first_literal = std::stable_partition(
      choices.begin(), choices.end(),
      [this](Expr one) { return At(one).kind != Kind::kLiteral; });
  if (choices.end() - first_literal > 1) {
    std::vector<std::string> words;
    for (auto one = first_literal; one != choices.end(); ++one) {
      words.push_back(At(*one).literal);
    }
    choices.erase(first_literal, choices.end());
    choices.push_back(Words(std::move(words)));
  }
  if (choices.size() == 1) return choices[0];
  return Add({.kind = Kind::kChoice, .parts = std::move(choices)});
}

GrammarBuilder::Expr GrammarBuilder::Words(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  if (words.size() == 1) return Literal(words[0]);
  return Add({.kind = Kind::kWords, .words = std::move(words)});
}

GrammarBuilder::Expr GrammarBuilder::Repeat(Expr part, int64_t min,
                                            int64_t max) {
  const bool is_limited = max != kUnlimited;
  if (min > max || min > Grammar::kMaxRepeat ||
      (is_limited && max > Grammar::kMaxRepeat)) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "a repetition of ", min, " to ", max, " times: the counts must be in ",
        "order and at most ", Grammar::kMaxRepeat)));
    return part;
  }
  const Kind kind = At(part).kind;
  const bool is_short = kind == Kind::kSet || kind == Kind::kToken ||
                        kind == Kind::kRule || At(part).literal.size() == 1;
  if ((is_limited ? max : min) > 1 && !is_short) {
    // The copies are calls of one rule, instead of copies of the whole part.
    const int32_t rule = NewRule("repeated");
    Define(rule, part);
    part = Rule(rule);
  }
  return Add({.kind = Kind::kRepeat, .min = min, .max = max, .parts = {part}});
}

int32_t GrammarBuilder::NewRule(absl::string_view name) {
  rules_.push_back({.name = std::string(name)});
  return static_cast<int32_t>(rules_.size()) - 1;
}

void GrammarBuilder::Define(int32_t rule, Expr definition) {
  rules_[static_cast<size_t>(rule)].definition = definition;
}

GrammarBuilder::Expr GrammarBuilder::Rule(int32_t rule) {
  return Add({.kind = Kind::kRule, .arg = static_cast<uint32_t>(rule)});
}

uint32_t GrammarBuilder::Push(GrammarInstruction instruction) {
  auto& program = grammar_.program;
  if (program.size() >= Grammar::kMaxInstructions) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("it is too large: with repetitions written out it has "
                     "more than ",
                     Grammar::kMaxInstructions, " instructions")));
    return Grammar::kReturnPc;
  }
  Spend(1);
  program.push_back(instruction);
  const auto at = static_cast<uint32_t>(program.size()) - 1;
  grammar_.copies.push_back({at, 0});
  return at;
}

// The recursion is at most kMaxDepth deep. The instructions after `expr` are
// emitted first, so that their place is known.
uint32_t GrammarBuilder::Emit(Expr expr, uint32_t next) {
  if (!status_.ok()) return Grammar::kReturnPc;
  const Node& node = At(expr);
  switch (node.kind) {
    case Kind::kLiteral:
      return EmitLiteral(node.literal, next);
    case Kind::kWords:
      return EmitWords(node.words, 0, next);
    case Kind::kSet:
      return Push({Op::kSet, next, node.arg});
    case Kind::kToken:
      return Push({Op::kToken, next, node.arg});
    case Kind::kSequence:
      for (size_t i = node.parts.size(); i-- > 0;) {
        next = Emit(node.parts[i], next);
      }
      return next;
    case Kind::kChoice: {
      uint32_t entry = Emit(node.parts.back(), next);
      for (size_t i = node.parts.size() - 1; i-- > 0;) {
        entry = Push({Op::kSplit, Emit(node.parts[i], next), entry});
      }
      return entry;
    }
    case Kind::kRepeat:
      return EmitRepeat(node, next);
    case Kind::kRule: {
      RuleInfo& rule = rules_[node.arg];
      if (!rule.is_emitted) to_emit_.push_back(static_cast<int32_t>(node.arg));
      rule.is_emitted = true;
      const uint32_t at = Push({Op::kCall, next, node.arg});
      calls_.push_back(at);
      return at;
    }
  }
  return Grammar::kReturnPc;
}

uint32_t GrammarBuilder::EmitLiteral(absl::string_view bytes, uint32_t next) {
  for (size_t i = bytes.size(); i-- > 0 && status_.ok();) {
    next = Push({Op::kByte, next, static_cast<uint8_t>(bytes[i])});
  }
  return next;
}

// The recursion is as deep as there are words that each begin with the one
// before: their bytes are in the source, so some hundreds.
uint32_t GrammarBuilder::EmitWords(std::span<const std::string> words,
                                   size_t n_shared, uint32_t next) {
  bool is_first = true;
  uint32_t entry = next;
  // A word that ends here comes first.
  if (words[0].size() == n_shared) {
    words = words.subspan(1);
    is_first = false;
  }
  while (!words.empty() && status_.ok()) {
    const std::string& first = words[0];
    const auto same = std::ranges::find_if(words, [&](const std::string& word) {
      return word[n_shared] != first[n_shared];
    });
    const auto n = static_cast<size_t>(same - words.begin());
    const std::string& last = words[n - 1];
    const auto differ =
        std::mismatch(first.begin(), first.end(), last.begin(), last.end());
    const auto n_common = static_cast<size_t>(differ.first - first.begin());
    const uint32_t rest =
        n == 1 ? next : EmitWords(words.first(n), n_common, next);
    const uint32_t at = EmitLiteral(
        absl::string_view(first).substr(n_shared, n_common - n_shared), rest);
    entry = is_first ? at : Push({Op::kSplit, at, entry});
    is_first = false;
    words = words.subspan(n);
  }
  return entry;
}

uint32_t GrammarBuilder::EmitRepeat(const Node& node, uint32_t next) {
  const Expr part = node.parts[0];
  const int64_t min = node.min;
  uint32_t entry = next;
  int64_t n_done = 0;
  if (node.max == kUnlimited) {
    const uint32_t loop = Push({Op::kSplit, next, next});
    const uint32_t body = Emit(part, loop);
    if (status_.ok()) grammar_.program[loop].next = body;
    entry = min > 0 ? body : loop;
    n_done = min > 0 ? 1 : 0;
  } else {
    uint32_t first_part = 0;
    uint32_t first_split = 0;
    for (int64_t i = min; i < node.max && status_.ok(); ++i) {
      const uint32_t at = Emit(part, entry);
      entry = Push({Op::kSplit, at, next});
      if (i == min) {
        first_part = at;
        first_split = entry;
      } else if (status_.ok()) {
        // If there is more than one copy, each copy is a single instruction.
        const auto rank = static_cast<uint32_t>(i - min);
        grammar_.copies[at] = {first_part, rank};
        grammar_.copies[entry] = {first_split, rank};
      }
    }
  }
  for (; n_done < min && status_.ok(); ++n_done) entry = Emit(part, entry);
  return entry;
}

void GrammarBuilder::EmitRules(int32_t root) {
  grammar_.program.push_back({Op::kReturn, 0, 0});
  grammar_.copies.push_back({Grammar::kReturnPc, 0});
  rules_[static_cast<size_t>(root)].is_emitted = true;
  to_emit_ = {root};
  while (!to_emit_.empty() && status_.ok()) {
    const auto at = static_cast<size_t>(to_emit_.back());
    to_emit_.pop_back();
    if (rules_[at].definition.index < 0) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat("'", rules_[at].name, "' is not defined")));
      return;
    }
    rules_[at].entry = Emit(rules_[at].definition, Grammar::kReturnPc);
  }
}

std::vector<bool> GrammarBuilder::ReachEnd(bool only_empty) const {
  const auto& program = grammar_.program;
  const size_t n = program.size();
  std::vector<std::vector<uint32_t>> used_by(n);
  for (uint32_t i = 1; i < n; ++i) {
    used_by[program[i].next].push_back(i);
    if (program[i].op == Op::kSplit) used_by[program[i].arg].push_back(i);
    if (program[i].op == Op::kCall) {
      used_by[rules_[program[i].arg].entry].push_back(i);
    }
  }
  std::vector<bool> reaches(n, false);
  reaches[Grammar::kReturnPc] = true;
  std::vector<uint32_t> left = {Grammar::kReturnPc};
  const auto does_now = [&](const GrammarInstruction& one) {
    switch (one.op) {
      case Op::kReturn:
        return true;
      case Op::kFail:
        return false;
      case Op::kByte:
      case Op::kToken:
        return !only_empty && reaches[one.next];
      case Op::kSet:
        return !only_empty && grammar_.sets[one.arg].any() && reaches[one.next];
      case Op::kSplit:
        return reaches[one.next] || reaches[one.arg];
      case Op::kCall:
        return reaches[one.next] && reaches[rules_[one.arg].entry];
    }
    return false;
  };
  while (!left.empty()) {
    const uint32_t at = left.back();
    left.pop_back();
    for (const uint32_t user : used_by[at]) {
      if (reaches[user] || !does_now(program[user])) continue;
      reaches[user] = true;
      left.push_back(user);
    }
  }
  return reaches;
}

absl::Status GrammarBuilder::CheckRules(
    int32_t root, const std::vector<bool>& can_end,
    const std::vector<bool>& is_empty) const {
  // The root comes first: if it cannot end, that is the error to report.
  std::vector<size_t> order = {static_cast<size_t>(root)};
  for (size_t i = 0; i < rules_.size(); ++i) order.push_back(i);
  for (const size_t i : order) {
    if (!rules_[i].is_emitted || can_end[rules_[i].entry]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", rules_[i].name,
                     "' can never end: every way through it comes "
                     "back to itself or to nothing"));
  }
  return CheckLeftRecursion(is_empty);
}

// Checks that no rule can begin with itself, also by way of other rules.
absl::Status GrammarBuilder::CheckLeftRecursion(
    const std::vector<bool>& is_empty) const {
  const auto& program = grammar_.program;
  const size_t n_rules = rules_.size();
  std::vector<std::vector<uint32_t>> begins_with(n_rules);
  std::vector<std::vector<uint32_t>> begun_by(n_rules);
  std::vector<bool> seen(program.size(), false);
  for (uint32_t rule = 0; rule < n_rules; ++rule) {
    if (!rules_[rule].is_emitted) continue;
    std::vector<uint32_t> left = {rules_[rule].entry};
    while (!left.empty()) {
      const uint32_t at = left.back();
      left.pop_back();
      if (seen[at] || at == Grammar::kReturnPc) continue;
      seen[at] = true;  // an instruction belongs to one rule
      const GrammarInstruction& one = program[at];
      if (one.op == Op::kSplit) {
        left.push_back(one.next);
        left.push_back(one.arg);
      } else if (one.op == Op::kCall) {
        begins_with[rule].push_back(one.arg);
        begun_by[one.arg].push_back(rule);
        if (is_empty[rules_[one.arg].entry]) left.push_back(one.next);
      }
    }
  }
  // Rules that no remaining rule begins with are removed. Circles remain, and
  // the rules that they begin with.
  std::vector<size_t> n_begun_by(n_rules);
  std::vector<uint32_t> free;
  for (uint32_t i = 0; i < n_rules; ++i) {
    n_begun_by[i] = begun_by[i].size();
    if (n_begun_by[i] == 0) free.push_back(i);
  }
  size_t n_taken = 0;
  uint32_t kept = 0;
  while (!free.empty()) {
    const uint32_t rule = free.back();
    free.pop_back();
    ++n_taken;
    for (const uint32_t other : begins_with[rule]) {
      if (--n_begun_by[other] == 0) free.push_back(other);
    }
  }
  if (n_taken == n_rules) return absl::OkStatus();
  while (n_begun_by[kept] == 0) ++kept;
  // This goes backwards until a rule comes again; that rule is on a circle.
  std::vector<bool> was_kept(n_rules, false);
  while (!was_kept[kept]) {
    was_kept[kept] = true;
    for (const uint32_t user : begun_by[kept]) {
      if (n_begun_by[user] == 0) continue;
      kept = user;
      break;
    }
  }
  return LeftRecursion(rules_[kept].name);
}

void GrammarBuilder::ClassifyBytes() {
  std::vector<ByteSet> told_apart = grammar_.sets;
  ByteSet single;
  for (const GrammarInstruction& one : grammar_.program) {
    if (one.op == Op::kByte) single.set(one.arg);
  }
  for (size_t b = 0; b < 256; ++b) {
    if (single[b]) told_apart.push_back(ByteSet().set(b));
  }
  std::array<uint8_t, 256>& class_of = grammar_.class_of;
  size_t n_classes = 1;
  for (const ByteSet& set : told_apart) {
    std::array<int, 512> renumbered;
    renumbered.fill(-1);
    int next = 0;
    for (size_t b = 0; b < 256; ++b) {
      int& to = renumbered[size_t{class_of[b]} * 2 + (set[b] ? 1 : 0)];
      if (to < 0) to = next++;
      class_of[b] = static_cast<uint8_t>(to);
    }
    n_classes = static_cast<size_t>(next);
  }
  grammar_.class_bytes.assign(n_classes, 0);
  for (size_t b = 0; b < 256; ++b) {
    grammar_.class_bytes[class_of[b]] = static_cast<uint8_t>(b);
  }
}

absl::StatusOr<std::shared_ptr<Grammar>> GrammarBuilder::Build(int32_t root) {
  RETURN_IF_ERROR(status_);
  EmitRules(root);
  Spend(grammar_.program.size());
  RETURN_IF_ERROR(status_);
  const std::vector<bool> can_end = ReachEnd(/*only_empty=*/false);
  Spend(grammar_.program.size());
  RETURN_IF_ERROR(status_);
  const std::vector<bool> is_empty = ReachEnd(/*only_empty=*/true);
  RETURN_IF_ERROR(CheckRules(root, can_end, is_empty));
  for (const uint32_t call : calls_) {
    GrammarInstruction& one = grammar_.program[call];
    one.arg = rules_[one.arg].entry;
  }
  for (size_t i = 0; i < can_end.size(); ++i) {
    if (!can_end[i]) grammar_.program[i].op = Op::kFail;
  }
  grammar_.start = rules_[static_cast<size_t>(root)].entry;
  FindExits(is_empty, grammar_);
  if (grammar_.exits[grammar_.start].depth > Grammar::kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("its shortest text nests more than ", Grammar::kMaxDepth,
                     " rules deep"));
  }
  ClassifyBytes();
  FindPlainSteps(grammar_);
  return std::make_shared<Grammar>(std::move(grammar_));
}

}  // namespace plimsoll::worker
