// A small model whose numbers the fuzzer chooses, or arbitrary bytes: shape and
// plan give an error or numbers that keep their promises.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "planner/layout/memory_plan.h"
#include "tests/planner/gguf/gguf_builder.h"
#include "tests/planner/tiny_models.h"

namespace plimsoll::planner {
namespace {

// Takes numbers from the front of the input; zeros when it is used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  template <typename T>
  T Take() {
    T value = 0;
    const size_t n = size_ < sizeof(T) ? size_ : sizeof(T);
    std::memcpy(&value, data_, n);
    data_ += n;
    size_ -= n;
    return value;
  }
  absl::string_view Rest() const {
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

TinyModel TakeModel(Input& input) {
  TinyModel m;
  const auto flags = input.Take<uint8_t>();
  if ((flags & 1) != 0) m.architecture = "gemma3";
  m.has_vocab = (flags & 2) != 0;
  m.n_layers = 1 + input.Take<uint8_t>() % 8;
  m.head_dim = 16 * (1 + input.Take<uint8_t>() % 32);
  m.n_kv_heads = 1 + input.Take<uint8_t>() % 8;
  m.n_heads = m.n_kv_heads * (1 + input.Take<uint8_t>() % 8);
  m.model_dim = 32 * (1 + input.Take<uint8_t>());
  m.ffn_dim = 32 * (1 + input.Take<uint8_t>());
  m.vocab = 2 + input.Take<uint8_t>();
  m.n_ctx = input.Take<uint32_t>();
  m.window = input.Take<uint32_t>();
  m.dtype = (flags & 4) != 0 ? DType::kF32 : DType::kF16;
  return m;
}

PlanOptions TakeOptions(Input& input) {
  PlanOptions options;
  const auto flags = input.Take<uint8_t>();
  if ((flags & 1) != 0) options.n_ctx = input.Take<int64_t>();
  if ((flags & 2) != 0) options.max_inference_len = input.Take<int64_t>();
  options.n_slots = input.Take<uint16_t>();
  options.n_ubatch = input.Take<uint16_t>();
  options.n_idle_sessions = input.Take<uint16_t>();
  if (options.n_idle_sessions == 0) {
    options.idle_session_bytes = input.Take<int64_t>();
  }
  options.n_draft = flags >> 4;
  if ((flags & 8) != 0) options.kv_tokens = input.Take<int64_t>();
  options.k_type = kDTypes[input.Take<uint8_t>() % kDTypes.size()].dtype;
  options.v_type = kDTypes[input.Take<uint8_t>() % kDTypes.size()].dtype;
  if ((flags & 4) != 0) options.margin_bytes = input.Take<int64_t>();
  return options;
}

void CheckPlan(const MemoryPlan& plan, const ModelShape& shape) {
  int64_t end = 0;
  int64_t sum = 0;
  for (const Region& region : plan.regions) {
    PLIMSOLL_CHECK(region.bytes >= 0, "no region is negative");
    sum += region.bytes;
    if (region.offset < 0) continue;
    PLIMSOLL_CHECK(region.offset == end, "regions follow one another");
    end += region.bytes;
  }
  PLIMSOLL_CHECK(end == plan.arena_bytes, "the arena is its regions");
  PLIMSOLL_CHECK(sum == plan.total_bytes, "the total is the regions' sum");
  PLIMSOLL_CHECK(plan.n_ctx >= 0 && plan.n_ctx <= shape.n_ctx_train,
                 "no context is beyond the trained one");
  PLIMSOLL_CHECK(plan.fits == (plan.total_bytes <= plan.budget_bytes),
                 "a plan fits exactly if its total is within the budget");
  for (const Suggestion& suggestion : plan.suggestions) {
    PLIMSOLL_CHECK(suggestion.saves_bytes >= plan.missing_bytes,
                   "what is suggested is enough");
  }
}

// `file_bytes` may be more than `bytes`: the rest are zeros, never stored.
void PlanFile(absl::string_view bytes, int64_t file_bytes, Input input) {
  HeaderSource source(bytes, file_bytes);
  const auto header = ReadGgufHeader(source);
  if (!header.ok()) return;
  const auto shape = ShapeFromGguf(*header);
  if (!shape.ok()) return;
  const PlanOptions options = TakeOptions(input);
  const auto plan =
      Layout(*shape, options, CommittedCpuProfile(), input.Take<int64_t>());
  if (plan.ok()) CheckPlan(*plan, *shape);
}

}  // namespace
}  // namespace plimsoll::planner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using plimsoll::planner::Input;
  Input input(data, size);
  const auto mode = input.Take<uint8_t>();
  if (mode % 4 == 0) {
    const absl::string_view rest = input.Rest();
    plimsoll::planner::PlanFile(rest, static_cast<int64_t>(rest.size()), input);
    return 0;
  }
  const auto builder =
      plimsoll::planner::BuilderOf(plimsoll::planner::TakeModel(input));
  std::string header = builder.Header();
  const int64_t file_bytes = builder.FileBytes(header.size());
  // Then a few of the good header's bytes are changed.
  for (int i = 0; i < mode % 4 - 1; ++i) {
    const size_t at = input.Take<uint32_t>() % header.size();
    header[at] = static_cast<char>(input.Take<uint8_t>());
  }
  plimsoll::planner::PlanFile(header, file_bytes, input);
  return 0;
}
