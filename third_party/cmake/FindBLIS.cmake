# Debian's BLIS 0.9 ships neither pkg-config nor CMake files. Gives BLIS::BLIS:
# the serial flavour, static, since shardplan brings its own threads.
find_path(BLIS_INCLUDE_DIR blis.h
  PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE}/blis-serial blis-serial)
find_library(BLIS_LIBRARY NAMES libblis.a
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/blis-serial NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(BLIS DEFAULT_MSG BLIS_LIBRARY BLIS_INCLUDE_DIR)
if(BLIS_FOUND AND NOT TARGET BLIS::BLIS)
  add_library(BLIS::BLIS STATIC IMPORTED)
  set_target_properties(BLIS::BLIS PROPERTIES
    IMPORTED_LOCATION "${BLIS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${BLIS_INCLUDE_DIR}")
endif()
