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
  if(CMAKE_LIBRARY_ARCHITECTURE STREQUAL "x86_64-linux-gnu")
    # bli_init() takes the address of every family's functions, so the linker
    # would take the kernels of all 13 families. src/graph/gemm.cc uses three; the
    # names of the others mean `generic`, which keeps 7 MB out of the program.
    foreach(family IN ITEMS bulldozer excavator knl penryn piledriver
                            sandybridge steamroller zen zen2 zen3)
      foreach(part IN ITEMS "" _ref _ind)
        set_property(TARGET BLIS::BLIS APPEND PROPERTY INTERFACE_LINK_OPTIONS
          "LINKER:--defsym=bli_cntx_init_${family}${part}=bli_cntx_init_generic${part}")
      endforeach()
    endforeach()
  endif()
endif()
