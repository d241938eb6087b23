# Fuzz targets of tokenizers, chat formats, templates, the UTF-8 stream and
# grammars.
foreach(name tokenizer_encode tokenizer_build chat_template utf8_stream grammar
    jinja tool_call)
  add_executable(${name}_fuzz ${name}_fuzz.cc)
  target_link_libraries(${name}_fuzz PRIVATE plimsoll_text)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name}_fuzz)
endforeach()
