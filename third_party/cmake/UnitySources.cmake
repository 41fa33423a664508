# Fewer, larger source files, where SHARDPLAN_UNITY asks for them.
#
#   shardplan_unity(LIST FOLDER)
#
# replaces the list named LIST by files in the build's FOLDER that include them,
# as unity_sources.py decides; it leaves the list as it is without Python.

option(SHARDPLAN_UNITY "Join source files: builds from nothing are faster" OFF)
if(SHARDPLAN_UNITY)
  find_package(Python3 QUIET COMPONENTS Interpreter)
endif()

function(shardplan_unity LIST FOLDER)
  if(NOT SHARDPLAN_UNITY OR NOT Python3_FOUND)
    return()
  endif()
  set(script ${CMAKE_SOURCE_DIR}/third_party/cmake/unity_sources.py)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${script} ${CMAKE_SOURCE_DIR}
            ${CMAKE_BINARY_DIR}/${FOLDER} ${${LIST}}
    OUTPUT_VARIABLE joined RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "${script} failed")
  endif()
  string(REPLACE "\n" ";" joined "${joined}")
  set(${LIST} ${joined} PARENT_SCOPE)
  # What can be joined may change with any of them.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script} ${${LIST}})
endfunction()
