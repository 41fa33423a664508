# Debian's libre2-dev ships only a pkg-config file. Gives RE2::RE2, the static
# library, so that the program needs no libre2 at run time.
find_path(RE2_INCLUDE_DIR re2/re2.h)
find_library(RE2_LIBRARY NAMES libre2.a)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(RE2 DEFAULT_MSG RE2_LIBRARY RE2_INCLUDE_DIR)
if(RE2_FOUND AND NOT TARGET RE2::RE2)
  find_package(Threads REQUIRED)
  add_library(RE2::RE2 STATIC IMPORTED)
  set_target_properties(RE2::RE2 PROPERTIES
    IMPORTED_LOCATION "${RE2_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${RE2_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
