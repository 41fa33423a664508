# Debian's yaml-cpp target is the shared library; the static one lies beside it.
# Gives YamlCpp::YamlCpp.
find_path(YAMLCPP_INCLUDE_DIR yaml-cpp/yaml.h)
find_library(YAMLCPP_LIBRARY NAMES libyaml-cpp.a)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(YamlCpp DEFAULT_MSG YAMLCPP_LIBRARY YAMLCPP_INCLUDE_DIR)
if(YamlCpp_FOUND AND NOT TARGET YamlCpp::YamlCpp)
  add_library(YamlCpp::YamlCpp STATIC IMPORTED)
  set_target_properties(YamlCpp::YamlCpp PROPERTIES
    IMPORTED_LOCATION "${YAMLCPP_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${YAMLCPP_INCLUDE_DIR}")
endif()
