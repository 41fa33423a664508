# What targets of ours are compiled and linked with.
#   shardplan_options    all of them: warnings, include root
#   shardplan_hardening  what ships: the compiler's defences against bugs

add_library(shardplan_options INTERFACE)
target_include_directories(shardplan_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(shardplan_options INTERFACE Abseil::InlinedVector)
target_compile_options(shardplan_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror
  # Messages of failed checks name files from the project's root.
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports the value of an empty std::optional that is never read.
  target_compile_options(shardplan_options INTERFACE -Wno-maybe-uninitialized)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(shardplan_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()

add_library(shardplan_hardening INTERFACE)
if(SHARDPLAN_RELEASE)
  target_compile_options(shardplan_options INTERFACE -fPIE)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    # g++ 12 moves integers through registers of MMX where others are taken, and
    # does not clear the state that `long double` shares with them.
    target_compile_options(shardplan_options INTERFACE
      -march=x86-64-v2 -mno-mmx)
    target_compile_options(shardplan_hardening INTERFACE -fcf-protection)
  endif()
  target_compile_options(shardplan_hardening INTERFACE
    -fstack-protector-strong -fstack-clash-protection)
  target_compile_definitions(shardplan_hardening INTERFACE _FORTIFY_SOURCE=2)
  # Nothing but glibc is needed at run time; where a target has the property
  # SHARDPLAN_STATIC, not even that.
  target_link_options(shardplan_options INTERFACE
    -Wl,-z,relro,-z,now -Wl,--as-needed
    $<IF:$<BOOL:$<TARGET_PROPERTY:SHARDPLAN_STATIC>>,-static-pie,-static-libstdc++;-static-libgcc;-pie>)
endif()
