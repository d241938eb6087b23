// Objects of templates: macros, namespaces, `loop`, functions and methods.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_OBJECTS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_OBJECTS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/syntax_tree.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

class Function final : public Object {
 public:
  Function(NativeFunction function, Value self)
      : function_(function), self_(std::move(self)) {}
  absl::string_view TypeName() const override {
    return "builtin_function_or_method";
  }
  absl::StatusOr<Value> Call(Evaluator& evaluator,
                             Arguments&& arguments) override {
    return function_(evaluator, self_, std::move(arguments));
  }
  int depth() const override { return self_.Depth() + 1; }

 private:
  const NativeFunction function_;
  const Value self_;
};

// A macro with the variables around it. The syntax outlives it.
class Macro final : public Object {
 public:
  Macro(const MacroSyntax& syntax, const Program& program, ScopePtr scope)
      : syntax_(syntax), program_(program), scope_(std::move(scope)) {}
  absl::string_view TypeName() const override { return "Macro"; }
  absl::StatusOr<std::optional<Value>> Member(Evaluator& evaluator,
                                              absl::string_view name) override;
  absl::StatusOr<Value> Call(Evaluator& evaluator,
                             Arguments&& arguments) override {
    return evaluator.CallMacro(syntax_, scope_, std::move(arguments));
  }
  absl::Status CallAndWrite(Evaluator& evaluator,
                            Arguments&& arguments) override {
    return evaluator.WriteMacro(syntax_, scope_, std::move(arguments));
  }
  std::string Repr() const override;
  void Release() override { scope_ = nullptr; }

 private:
  const MacroSyntax& syntax_;
  const Program& program_;
  ScopePtr scope_;
};

// The result of `namespace()`, whose members can be assigned.
class Namespace final : public Object {
 public:
  absl::string_view TypeName() const override { return "Namespace"; }
  const Value* HeldMember(absl::string_view name) const override;
  absl::StatusOr<std::optional<Value>> Member(Evaluator& evaluator,
                                              absl::string_view name) override;
  bool IsCallable() const override { return false; }
  int depth() const override { return depth_; }
  void Release() override { members_.clear(); }
  // Errors: kInvalidArgument if values would be nested too deep.
  absl::Status Set(absl::string_view name, Value value);
  // The member `name`, which may be changed, or null.
  Value* Find(absl::string_view name);

 private:
  std::vector<std::pair<std::string, Value>> members_;
  int depth_ = 1;
};

// `loop` in the body of a loop.
class Loop final : public Object {
 public:
  struct Items {
    std::shared_ptr<Iterator> iterator;
    std::optional<int64_t> length;  // set if it is known
  };

  // `syntax` and `scope` belong to the loop; a recursive loop can be called.
  Loop(Items items, const Statement& syntax, ScopePtr scope, int64_t depth0)
      : items_(std::move(items)),
        syntax_(syntax),
        scope_(std::move(scope)),
        depth0_(depth0) {}

  // Goes to the next item and returns it; nothing at the end.
  absl::StatusOr<std::optional<Value>> Advance(Evaluator& evaluator);

  absl::string_view TypeName() const override { return "LoopContext"; }
  absl::StatusOr<std::optional<Value>> Member(Evaluator& evaluator,
                                              absl::string_view name) override;
  absl::StatusOr<Value> Call(Evaluator& evaluator,
                             Arguments&& arguments) override;
  int depth() const override { return items_.iterator->depth() + 1; }
  // Remembers `values`. Returns true if they differ from the values of the last
  // call.
  absl::StatusOr<bool> HasChanged(Evaluator& evaluator, Value values);
  int64_t index0() const { return index0_; }
  void Release() override;

 private:
  absl::StatusOr<const std::optional<Value>*> PeekNext(Evaluator& evaluator);
  absl::StatusOr<int64_t> Length(Evaluator& evaluator);

  Items items_;
  const Statement& syntax_;
  ScopePtr scope_;
  const int64_t depth0_;
  int64_t index0_ = -1;
  std::optional<Value> before_;
  std::optional<Value> current_;
  std::optional<std::optional<Value>> after_;  // set after it was looked at
  std::optional<Value> last_changed_;
};

// A function of templates by its name, or null: `range`, `namespace` ...
NativeFunction FindGlobal(absl::string_view name);

// A method of an object by its name, or null.
NativeFunction FindObjectMethod(const Object& object, absl::string_view name);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_OBJECTS_H_
