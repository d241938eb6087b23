// Makes the masks that hold a reply to its constraint.
#ifndef PLIMSOLL_WORKER_ENGINE_MASK_MAKER_H_
#define PLIMSOLL_WORKER_ENGINE_MASK_MAKER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/engine/generate_options.h"
#include "worker/text/grammar/token_mask.h"
#include "worker/text/tokenizer/token_index.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// All masks share one index of the vocabulary. The first request with a
// constraint makes it. Thread-safe.
class MaskMaker {
 public:
  // `tokenizer` outlives the object, and the object outlives its masks.
  explicit MaskMaker(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The mask of a request's reply; null if the reply may be any text.
  std::unique_ptr<TokenMask> NewMask(const GenerateOptions& request);

 private:
  const TokenIndex& Index();

  const Tokenizer& tokenizer_;
  absl::Mutex mu_;
  std::unique_ptr<const TokenIndex> index_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_MASK_MAKER_H_
