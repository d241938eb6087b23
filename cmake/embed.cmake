# Writes a C++ file that holds other files, as services/http/page_files.h says.
#
# cmake -DFOLDER=... -DFILES="a b" -DOUTPUT=... -P embed.cmake
#
# FILES are names in FOLDER. The same files give the same output.
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
    "    {\"${name}\", R\"(\"${tag}\")\",\n     Bytes(\"${hex}\")},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/embed.cmake.
#include \"services/http/page_files.h\"

namespace plimsoll::services {
namespace {

template <size_t kSize>
constexpr absl::string_view Bytes(const char (&text)[kSize]) {
  return {text, kSize - 1};
}

constexpr PageFile kPageFiles[] = {
${entries}};

}  // namespace

std::span<const PageFile> PageFiles() { return kPageFiles; }

}  // namespace plimsoll::services
")
