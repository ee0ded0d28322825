# cmake --install: headers, static and shared library, pkg-config file, CMake package, program, man pages.
include(CMakePackageConfigHelpers)

# In the CMake package the library is stet::stet, the program stet::program.
set_target_properties(stet PROPERTIES EXPORT_NAME program)
install(TARGETS stet stet_shared EXPORT stet-targets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(NOT STET_SANITIZE)
  install(FILES ${PROJECT_BINARY_DIR}/libstet.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/stet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

file(RELATIVE_PATH STET_PC_UP "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/") # the prefix may be chosen at install time
# What a static link needs. As names, not as Requires.private: that would hand the flags that these packages want for
# their own headers to everybody.
set(STET_PC_LIBS)
foreach(package OPENBLAS CBLAS JANSSON UTF8PROC ZLIB LZMA ZSTD CURL ARCHIVE GMP)
  if(${package}_FOUND)
    list(APPEND STET_PC_LIBS ${${package}_LDFLAGS})
  endif()
endforeach()
list(REMOVE_DUPLICATES STET_PC_LIBS)
list(JOIN STET_PC_LIBS " " STET_PC_LIBS)
configure_file(cmake/stet.pc.in ${PROJECT_BINARY_DIR}/stet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/stet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT stet-targets NAMESPACE stet:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stet)
file(WRITE ${PROJECT_BINARY_DIR}/stet-config.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/stet-targets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stet-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stet-config.cmake ${PROJECT_BINARY_DIR}/stet-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stet)

# The man page is the program's own help.
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/stet.1
  COMMAND stet man > ${PROJECT_BINARY_DIR}/stet.1 DEPENDS stet VERBATIM COMMENT "stet.1")
add_custom_target(man ALL DEPENDS ${PROJECT_BINARY_DIR}/stet.1)
install(FILES ${PROJECT_BINARY_DIR}/stet.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# Completion for the three shells, likewise, where each looks for it.
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/completion.${shell}
    COMMAND stet completion ${shell} > ${PROJECT_BINARY_DIR}/completion.${shell} DEPENDS stet VERBATIM)
  list(APPEND completions ${PROJECT_BINARY_DIR}/completion.${shell})
endforeach()
add_custom_target(completions ALL DEPENDS ${completions})
install(FILES ${PROJECT_BINARY_DIR}/completion.bash RENAME stet DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${PROJECT_BINARY_DIR}/completion.zsh RENAME _stet DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${PROJECT_BINARY_DIR}/completion.fish RENAME stet.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
