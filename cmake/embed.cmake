# Writes a C++ file that holds other files, as services/http/page_files.h says.
#
# cmake -DFOLDER=... -DFILES="a b" -DFUNCTION=... -DOUTPUT=... -P embed.cmake
#
# FILES are names in FOLDER, and FUNCTION returns them. The same files give the
# same output.
string(REPLACE " " ";" names "${FILES}")
set(entries "")
foreach(name IN LISTS names)
  set(path ${FOLDER}/${name})
  file(READ ${path} hex HEX)
  file(SHA256 ${path} digest)
  string(SUBSTRING ${digest} 0 32 tag)
  # Lines of 18 bytes, each a literal of its own.
  string(REPEAT "[0-9a-f]" 36 line)
  string(REGEX REPLACE "(${line})" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" hex "${hex}")
  string(REPLACE "\n" "\"\n     \"" hex "${hex}")
  string(APPEND entries
    "    {\"${name}\", R\"(\"${tag}\")\",\n     ${FUNCTION}Bytes(\"${hex}\")},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/embed.cmake.
#include \"services/http/page_files.h\"

// A file may be longer than the texts that every compiler has to take.
#pragma GCC diagnostic ignored \"-Woverlength-strings\"

namespace plimsoll::services {
namespace {

template <size_t kSize>
constexpr absl::string_view ${FUNCTION}Bytes(const char (&text)[kSize]) {
  return {text, kSize - 1};
}

constexpr PageFile k${FUNCTION}[] = {
${entries}};

}  // namespace

std::span<const PageFile> ${FUNCTION}() { return k${FUNCTION}; }

}  // namespace plimsoll::services
")
