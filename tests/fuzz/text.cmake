# Fuzz targets of tokenizers, chat formats, templates, the UTF-8 stream and
# grammars.
foreach(name tokenizer_encode tokenizer_build chat_template utf8_stream grammar
    jinja tool_call)
  plimsoll_fuzz(${name}_fuzz LIBS plimsoll_text)
endforeach()
