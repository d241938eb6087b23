#include "worker/engine/mask_maker.h"

namespace plimsoll::worker {

std::unique_ptr<TokenMask> MaskMaker::NewMask(const GenerateOptions& request) {
  if (request.constraint == nullptr) return nullptr;
  return std::make_unique<TokenMask>(request.constraint, Index());
}

const TokenIndex& MaskMaker::Index() {
  absl::MutexLock lock(&mu_);
  if (index_ == nullptr) index_ = std::make_unique<TokenIndex>(tokenizer_);
  return *index_;
}

}  // namespace plimsoll::worker
