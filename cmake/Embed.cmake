# A file of the source tree as a C array: stet_embed(page.css OUT_VARIABLE) makes page_css.h, which defines
# `static const unsigned char page_css[]`, NUL at the end, and names the header in OUT_VARIABLE.
# As a script (cmake -DIN=... -DOUT=... -DNAME=... -P Embed.cmake) it is the generator itself.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${IN} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(WRITE ${OUT} "static const unsigned char ${NAME}[] = {${bytes}0};\n")
  return()
endif()

set(STET_EMBED ${CMAKE_CURRENT_LIST_FILE})
function(stet_embed file out)
  string(MAKE_C_IDENTIFIER ${file} name)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/${name}.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUT=${header} -DNAME=${name} -P ${STET_EMBED}
    DEPENDS ${file} ${STET_EMBED} VERBATIM)
  set(${out} ${header} PARENT_SCOPE)
endfunction()
