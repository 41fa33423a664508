# How many times headers are read.
#
#   shardplan_compile(TARGET)
#
# With SHARDPLAN_UNITY the files of a folder are compiled as one: a build from
# nothing is twice as fast, since headers and templates cost more than our own
# lines. So what is local to a file has a name of its own within its folder.
# With SHARDPLAN_PCH each file is compiled alone, over
# a precompiled header: a build after a change is fast.

option(SHARDPLAN_UNITY "Compile the files of a folder as one" OFF)
option(SHARDPLAN_PCH "Precompile the headers of other libraries" OFF)

function(shardplan_compile TARGET)
  if(SHARDPLAN_PCH)
    target_precompile_headers(${TARGET} PRIVATE ${ARGN}
      <algorithm> <array> <charconv> <cmath> <cstdint> <functional> <map>
      <memory> <numeric> <optional> <set> <span> <string> <string_view>
      <unordered_map> <utility> <vector> <fmt/format.h>)
  endif()
  if(NOT SHARDPLAN_UNITY)
    return()
  endif()
  set_target_properties(${TARGET} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It takes a file that is joined for a header.
    target_compile_options(${TARGET} PRIVATE -Wno-subobject-linkage)
  endif()
  get_target_property(sources ${TARGET} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} ABSOLUTE)
    get_filename_component(folder ${folder} DIRECTORY)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${folder})
    string(REPLACE "/" "_" folder "${folder}")
    # Files of a build folder have no folder of ours; those of tests/support are
    # few and of many namespaces.
    if(folder MATCHES "^(src|tests)" AND NOT folder STREQUAL "tests_support")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder})
    endif()
  endforeach()
endfunction()
