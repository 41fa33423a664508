# Files that become part of the program.
#
#   shardplan_embed(OUTPUT x.cc ROOT rules PATTERN *.yaml
#                   HEADER base/shipped.h TYPE ShippedFile ACCESSOR shipped_files)
#
# writes x.cc into the build folder and adds it to EMBEDDED. It defines the
# function that HEADER declares, std::span<const TYPE> ACCESSOR(), over
# {path below ROOT, text} of every matching file, sorted by path.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(shardplan_embed)
    cmake_parse_arguments(E "" "OUTPUT;ROOT;HEADER;TYPE;ACCESSOR" "PATTERN" ${ARGN})
    set(root ${CMAKE_SOURCE_DIR}/${E_ROOT})
    set(patterns ${E_PATTERN})
    list(TRANSFORM patterns PREPEND ${root}/)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${root} ${patterns})
    list(SORT files)
    set(paths ${files})
    list(TRANSFORM paths PREPEND ${root}/)
    set(output ${CMAKE_BINARY_DIR}/${E_OUTPUT})
    set(script ${CMAKE_SOURCE_DIR}/third_party/cmake/EmbedFiles.cmake)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DROOT=${root} -DOUTPUT=${output}
              -DHEADER=${E_HEADER} -DTYPE=${E_TYPE} -DACCESSOR=${E_ACCESSOR} -P ${script}
      DEPENDS ${paths} ${script}
      COMMENT "Embedding ${E_ROOT}/" VERBATIM)
    # Longer literals than every compiler must take; gcc and clang take them.
    set_source_files_properties(${output} PROPERTIES
      COMPILE_OPTIONS -Wno-overlength-strings)
    set(EMBEDDED ${EMBEDDED} ${output} PARENT_SCOPE)
  endfunction()
  return()
endif()

set(texts "")
set(rows "")
set(count 0)
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" text)
  string(APPEND texts "constexpr char kText${count}[] = R\"embedded(${text})embedded\";\n")
  string(APPEND rows "    {\"${file}\", {kText${count}, sizeof kText${count} - 1}},\n")
  math(EXPR count "${count} + 1")
endforeach()
if(count EQUAL 0)
  string(APPEND rows "    {\"\", \"\"},\n")  # an array needs an element
endif()
file(WRITE "${OUTPUT}" "// Made by EmbedFiles.cmake.
#include \"${HEADER}\"

namespace shardplan {
namespace {
${texts}
constexpr ${TYPE} kFiles[] = {
${rows}};
}  // namespace

std::span<const ${TYPE}> ${ACCESSOR}() { return {kFiles, ${count}}; }

}  // namespace shardplan
")
