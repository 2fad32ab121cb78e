# What `make install` puts under the prefix. Installed files find each other by
# relative paths, so that the installed tree can be moved.
include(CMakePackageConfigHelpers)

add_custom_target(product DEPENDS fovea_shared fovea_static)

install(TARGETS fovea_shared fovea_static EXPORT fovea-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/fovea DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")

# CMake package: find_package(fovea), targets fovea::fovea and fovea::fovea_static.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/fovea)
install(EXPORT fovea-targets NAMESPACE fovea:: DESTINATION ${package})
configure_package_config_file(cmake/fovea-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/fovea-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/fovea-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fovea-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/fovea-config-version.cmake DESTINATION ${package})

# pkg-config, relative to the .pc file unless the library folder was given as an absolute path.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(FV_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(FV_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
else()
  file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(FV_PC_PREFIX "\${pcfiledir}/${up}")
  set(FV_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(FV_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(FV_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/fovea.pc.in fovea.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fovea.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The program, and what its option table writes: the man page and the completions.
if(TARGET fovea)
  add_dependencies(product fovea)
  install(TARGETS fovea RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(NOT CMAKE_CROSSCOMPILING)
    set(help ${CMAKE_CURRENT_BINARY_DIR}/help)
    add_custom_command(OUTPUT ${help}/fovea.1 ${help}/fovea.bash ${help}/_fovea ${help}/fovea.fish
      COMMAND ${CMAKE_COMMAND} -E make_directory ${help}
      COMMAND fovea help --man > ${help}/fovea.1
      COMMAND fovea help --completion bash > ${help}/fovea.bash
      COMMAND fovea help --completion zsh > ${help}/_fovea
      COMMAND fovea help --completion fish > ${help}/fovea.fish
      DEPENDS fovea VERBATIM)
    add_custom_target(fovea_help ALL DEPENDS ${help}/fovea.1)
    add_dependencies(product fovea_help)
    install(FILES ${help}/fovea.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${help}/fovea.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
      RENAME fovea)
    install(FILES ${help}/_fovea DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${help}/fovea.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endif()
endif()
