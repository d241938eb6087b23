// Checks a model's tokenizer.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_TOKENIZER_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_TOKENIZER_H_

#include <memory>

#include "services/cli/backends/check.h"
#include "worker/device/model_file.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::cli {

struct TokenizerCheck {
  Check check;
  // Null if the file has no tokenizer, or if this build does not know it.
  std::unique_ptr<worker::Tokenizer> tokenizer;
};

// Encodes texts of several kinds and decodes them again; the check fails if a
// text changes. It also fails for tables that contradict each other. The result
// is a note if the tokenizer has no BOS although the file wants one, or no
// token that ends a reply, or if the check is skipped.
TokenizerCheck CheckTokenizer(worker::ModelFile& file);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_TOKENIZER_H_
