// How a template's expressions are computed.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_EXPRESSIONS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_EXPRESSIONS_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/text/jinja/render_meter.h"
#include "worker/text/jinja/syntax_tree.h"
#include "worker/text/jinja/text.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// Variables of a block of statements, and those around it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> values = {};  // by name

  void Set(int name, Value value);
  Value* Find(int name);  // here only
};
using ScopePtr = std::shared_ptr<Scope>;

// Computes the expressions of one rendering, whose evaluator owns it. Used by
// one thread. Its functions return the errors of what they compute.
class Expressions {
 public:
  // The references must outlive it. `globals` are the values of all names
  // outside of scopes.
  Expressions(Evaluator& evaluator, RenderMeter& meter,
              std::vector<Value> globals)
      : evaluator_(evaluator), meter_(meter), globals_(std::move(globals)) {}

  absl::StatusOr<Value> Compute(const Expression& node, const ScopePtr& scope);
  // Returns a pointer to the stored value, or to `room` if the value is not
  // stored elsewhere. The pointer is valid until another value is computed.
  absl::StatusOr<const Value*> Refer(const Expression& node,
                                     const ScopePtr& scope, Value& room);
  // The truth of the value.
  absl::StatusOr<bool> Decide(const Expression& node, const ScopePtr& scope);
  const Value& Variable(const Expression& node, const ScopePtr& scope) const;
  // The value of `target ~ more` or `target + more`, to be assigned to
  // `target`. If no other value shares the text, it is extended in place, so
  // that a growing text is not copied again and again.
  absl::StatusOr<Value> ComputeAppended(const Expression& node,
                                        const Expression& target,
                                        const ScopePtr& scope);
  // The value of a filter, applied to `input` where the expression names no
  // value.
  absl::StatusOr<Value> ComputeFilter(const Expression& node,
                                      const ScopePtr& scope,
                                      const Value* input = nullptr);
  absl::StatusOr<Arguments> ComputeArguments(const CallSyntax& call,
                                             const ScopePtr& scope);
  // Writes the result of a call.
  absl::Status WriteCall(const Expression& node, const ScopePtr& scope);

 private:
  // The target of a call: an object, or a method of the value.
  struct Callee {
    Value value;
    NativeFunction method = nullptr;
  };

  absl::StatusOr<Value> ComputeKind(const Expression& node,
                                    const ScopePtr& scope);
  absl::StatusOr<Value> ComputeChoice(const Expression& node,
                                      const ScopePtr& scope);
  // The part of Refer that handles `a.b` and `a[b]`.
  absl::StatusOr<const Value*> ReferHeld(const Expression& node,
                                         const ScopePtr& scope, Value& room);
  absl::StatusOr<bool> DecideKind(const Expression& node,
                                  const ScopePtr& scope);
  absl::StatusOr<bool> DecideCompare(const Expression& node,
                                     const ScopePtr& scope);
  absl::StatusOr<bool> DecideTest(const Expression& node,
                                  const ScopePtr& scope);
  absl::StatusOr<Value> ComputeList(const Expression& node,
                                    const ScopePtr& scope);
  absl::StatusOr<Value> ComputeDict(const Expression& node,
                                    const ScopePtr& scope);
  absl::StatusOr<Value> ComputeBinary(const Expression& node,
                                      const ScopePtr& scope);
  absl::StatusOr<Value> ComputeConcat(const Expression& node,
                                      const ScopePtr& scope);
  absl::StatusOr<Value> ComputeAppendedKind(const Expression& node,
                                            const Expression& target,
                                            const ScopePtr& scope);
  // The value of a target that is a name of this scope, or the member of a
  // namespace; null if it has no value yet.
  Value* Held(const Expression& target, const ScopePtr& scope);
  // Appends the operands from `first` on.
  absl::Status AppendOperands(const Expression& node, size_t first,
                              const ScopePtr& scope, TextBuilder& out);
  absl::StatusOr<Value> ComputeCondition(const Expression& node,
                                         const ScopePtr& scope);
  absl::StatusOr<Value> ComputeSlice(const Expression& node,
                                     const ScopePtr& scope);
  absl::StatusOr<Value> ComputeCall(const Expression& node,
                                    const ScopePtr& scope);
  // The part of WriteCall within the node.
  absl::Status WriteCallKind(const Expression& node, const ScopePtr& scope);
  absl::StatusOr<Callee> ComputeCallee(const Expression& node,
                                       const ScopePtr& scope);
  absl::StatusOr<Value> CallMethod(const Callee& callee, Arguments&& arguments);

  Evaluator& evaluator_;
  RenderMeter& meter_;
  std::vector<Value> globals_;  // by name
};

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_EXPRESSIONS_H_
