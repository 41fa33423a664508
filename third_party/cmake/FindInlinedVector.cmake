# Debian's targets of Abseil are the shared libraries; the static ones lie beside
# them. Gives Abseil::InlinedVector: the header, and what it throws with.
find_path(ABSL_INCLUDE_DIR absl/container/inlined_vector.h)
set(parts throw_delegate raw_logging_internal log_severity)
set(ABSL_LIBRARIES)
foreach(part IN LISTS parts)
  find_library(ABSL_${part}_LIBRARY NAMES libabsl_${part}.a)
  list(APPEND ABSL_LIBRARIES "${ABSL_${part}_LIBRARY}")
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(InlinedVector DEFAULT_MSG
  ABSL_throw_delegate_LIBRARY ABSL_raw_logging_internal_LIBRARY
  ABSL_log_severity_LIBRARY ABSL_INCLUDE_DIR)
if(InlinedVector_FOUND AND NOT TARGET Abseil::InlinedVector)
  add_library(Abseil::InlinedVector INTERFACE IMPORTED)
  set_target_properties(Abseil::InlinedVector PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${ABSL_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${ABSL_LIBRARIES}")
endif()
