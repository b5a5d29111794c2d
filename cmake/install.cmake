# Headers, both libraries, the CMake package and the pkg-config file. Components: runtime (the shared library), development,
# tools (the programs).
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/cusight)
install(TARGETS cusight EXPORT cusight-targets
    LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
    RUNTIME COMPONENT runtime ARCHIVE COMPONENT development) # Windows
install(TARGETS cusight_static EXPORT cusight-static-targets ARCHIVE COMPONENT development)
install(DIRECTORY include/cusight DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT cusight-targets NAMESPACE cusight:: DESTINATION ${package_folder} COMPONENT development)
install(EXPORT cusight-static-targets NAMESPACE cusight:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(cmake/cusight-config.cmake.in cusight-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(cusight-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cusight-config.cmake ${PROJECT_BINARY_DIR}/cusight-config-version.cmake
    DESTINATION ${package_folder} COMPONENT development)

# Relative to the file's own location, so that it stays correct under `cmake --install --prefix` and after a move.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/+$" "" pc_prefix ${pc_prefix})
configure_file(cmake/cusight.pc.in cusight.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cusight.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
