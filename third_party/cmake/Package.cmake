# `cmake --install build/release` and `cpack -G DEB` (in build/release): the program
# that needs glibc. scripts/package makes what needs nothing, with the same pages.
include(GNUInstallDirs)
install(TARGETS shardplan RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc
  FILES_MATCHING PATTERN "*.md")

# The program writes its own completion scripts, where each shell looks. They come
# with it, so that `cmake --install` works when nothing else was built.
if(SHARDPLAN_RELEASE)
  set(completions ${CMAKE_BINARY_DIR}/completions)
  file(MAKE_DIRECTORY ${completions})
  add_custom_command(TARGET shardplan POST_BUILD
    COMMAND shardplan completion bash > ${completions}/shardplan.bash
    COMMAND shardplan completion zsh > ${completions}/_shardplan
    COMMAND shardplan completion fish > ${completions}/shardplan.fish
    COMMENT "Writing the completion scripts")
  set(share ${CMAKE_INSTALL_DATADIR})
  install(FILES ${completions}/shardplan.bash RENAME shardplan
    DESTINATION ${share}/bash-completion/completions)
  install(FILES ${completions}/_shardplan
    DESTINATION ${share}/zsh/vendor-completions)
  install(FILES ${completions}/shardplan.fish
    DESTINATION ${share}/fish/vendor_completions.d)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "shardplan")
set(CPACK_PACKAGE_CONTACT "shardplan maintainers <maintainers@users.noreply.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
# Built on Debian 12; everything but glibc is linked statically.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36)")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "${PROJECT_DESCRIPTION}
 Tells for a model, a rules file and a device mesh how every parameter is
 sharded, what was corrected and why, and what each device holds.")
include(CPack)
