# Writes OUT, a C++ source with every file of the chat page in FOLDER as bytes (src/server/web/web.h).
# usage: cmake -DFOLDER=DIR -DOUT=FILE -P embed.cmake
set(types
  "html=text/html\; charset=utf-8" "css=text/css\; charset=utf-8"
  "js=text/javascript\; charset=utf-8" "svg=image/svg+xml")
set(rows "")
foreach(row IN LISTS types)
  string(REGEX MATCH "^([a-z]+)=(.*)$" _ "${row}")
  set(extension "${CMAKE_MATCH_1}")
  set(type "${CMAKE_MATCH_2}")
  file(GLOB files ${FOLDER}/*.${extension})
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME)
    file(READ ${file} text)
    file(SHA256 ${file} hash)
    string(SUBSTRING ${hash} 0 32 hash)
    string(FIND "${text}" ")embedded\"" clash)
    if(NOT clash EQUAL -1)
      message(FATAL_ERROR "${file}: holds the delimiter of its own embedding")
    endif()
    string(APPEND rows
           "    {\"${name}\", \"${type}\", \"\\\"${hash}\\\"\",\n     R\"embedded(${text})embedded\"},\n")
  endforeach()
endforeach()
file(WRITE ${OUT} "// The files of the chat page; made by src/server/web/embed.cmake.
#include \"server/web/web.h\"

namespace flare::server::web {
namespace {

constexpr File kFiles[] = {
${rows}};

}  // namespace

std::span<const File> files() { return kFiles; }

}  // namespace flare::server::web
")
