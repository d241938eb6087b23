// Reads the header of a GGUF file: bytes that may be hostile become a typed,
// checked metadata table and tensor table. Tensor data is never read.
#ifndef PLIMSOLL_PLANNER_GGUF_GGUF_READER_H_
#define PLIMSOLL_PLANNER_GGUF_GGUF_READER_H_

#include "absl/status/statusor.h"
#include "planner/gguf/byte_source.h"
#include "planner/gguf/gguf_header.h"

namespace plimsoll::planner {

// Reads and checks the header behind `source`, through a small buffer. Memory
// and work stay bounded for any contents of the file: nothing is read beyond
// source.PresentBytes() or kMaxHeaderBytes, and the strings of long arrays are
// skipped, not stored.
//
// A header is refused if any count, length, type, offset or size in it is out
// of its limits, if a name comes twice, if the alignment is no power of two, or
// if a tensor's data would lie outside of the file, off its alignment or over
// another tensor's.
// Errors: kInvalidArgument or kDataLoss, with the field and its fault; those of
// `source`.
// Source: the GGUF specification, versions 2 and 3.
absl::StatusOr<GgufHeader> ReadGgufHeader(ByteSource& source);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_GGUF_READER_H_
