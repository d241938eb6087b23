#include "worker/text/schema/constraint.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/gbnf.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/schema/schema_grammar.h"

namespace plimsoll::worker {
namespace {

// Tells sources apart.
std::string KeyOf(const ConstraintSource& source) {
  const SchemaOptions& options = source.options;
  return absl::StrCat(static_cast<int>(source.form), options.closed_objects,
                      options.any_order, options.any_spelling,
                      options.refuse_unknown, options.ignore_formats, ":",
                      KeyOf(source.frame), source.text);
}

}  // namespace

absl::StatusOr<Constraint> CompileConstraint(const ConstraintSource& source,
                                             StopCheck stop) {
  if (source.frame.trigger.size() > ConstraintSource::kMaxTriggerBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the trigger has ", source.frame.trigger.size(), " bytes; at most ",
        ConstraintSource::kMaxTriggerBytes, " are allowed"));
  }
  Constraint constraint;
  switch (source.form) {
    case ConstraintSource::Form::kJsonSchema: {
      ASSIGN_OR_RETURN(
          CompiledSchema compiled,
          CompileSchema(source.text, source.options, stop, source.frame));
      return Constraint{std::move(compiled.grammar), std::move(compiled.notes)};
    }
    case ConstraintSource::Form::kGbnf: {
      ASSIGN_OR_RETURN(constraint.grammar,
                       CompileGbnf(source.text, stop, source.frame.trigger));
      break;
    }
    case ConstraintSource::Form::kRegex: {
      ASSIGN_OR_RETURN(constraint.grammar,
                       CompileRegex(source.text, stop, source.frame.trigger));
      break;
    }
  }
  return constraint;
}

int64_t GrammarBytes(const Grammar& grammar) {
  size_t n_steps = 0;
  for (const auto& of_kind : grammar.plain_steps) {
    for (const auto& steps : of_kind) n_steps += steps.capacity();
  }
  return static_cast<int64_t>(sizeof(Grammar) +
                              grammar.program.capacity() *
                                  sizeof(GrammarInstruction) +
                              grammar.copies.capacity() * sizeof(GrammarCopy) +
                              grammar.exits.capacity() * sizeof(GrammarExit) +
                              grammar.sets.capacity() * sizeof(ByteSet) +
                              grammar.tokens.capacity() * sizeof(int32_t) +
                              n_steps * sizeof(PlainStep));
}

absl::StatusOr<Constraint> ConstraintCache::Get(const ConstraintSource& source,
                                                StopCheck stop) {
  std::string key = KeyOf(source);
  {
    absl::MutexLock lock(&mu_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      ++n_hits_;
      return found->second->constraint;
    }
  }
  ASSIGN_OR_RETURN(Constraint made, CompileConstraint(source, stop));
  // The key is there twice.
  int64_t n_bytes = GrammarBytes(*made.grammar) +
                    2 * static_cast<int64_t>(key.size()) +
                    static_cast<int64_t>(sizeof(Entry));
  for (const std::string& note : made.notes) {
    n_bytes += static_cast<int64_t>(note.capacity() + sizeof(std::string));
  }
  absl::MutexLock lock(&mu_);
  if (n_bytes > max_bytes_ || by_key_.contains(key)) return made;
  while (n_bytes_ + n_bytes > max_bytes_) {
    n_bytes_ -= entries_.back().n_bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({key, made, n_bytes});
  by_key_[std::move(key)] = entries_.begin();
  n_bytes_ += n_bytes;
  return made;
}

int64_t ConstraintCache::n_bytes() const {
  absl::MutexLock lock(&mu_);
  return n_bytes_;
}

int64_t ConstraintCache::n_hits() const {
  absl::MutexLock lock(&mu_);
  return n_hits_;
}

}  // namespace plimsoll::worker
