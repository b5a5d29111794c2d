# Packages: `cpack` in the build folder writes libcusight0.3, libcusight-dev, cusight-tools, gstreamer1.0-cusight and cusight-mpi, which
# is empty, as .deb files, `cpack --config CPackSourceConfig.cmake` the sources as .tar.gz. Configure with CMAKE_INSTALL_PREFIX=/usr, as
# the preset `package` does, so that libraries go where Debian has them.
set(version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_PACKAGE_NAME cusight)
set(CPACK_PACKAGE_VENDOR "The cusight authors")
set(CPACK_PACKAGE_CONTACT "The cusight authors <cusight@users.noreply.github.com>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL runtime development)
if(TARGET cusight_samples)
    list(APPEND CPACK_COMPONENTS_ALL tools mpi)
endif()
if(TARGET cusight_gstreamer)
    list(APPEND CPACK_COMPONENTS_ALL gstreamer)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# No list of symbols beside shlibs: the library's name changes with what may change them.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libcusight${version})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Shared library.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcusight-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers, static library, CMake and pkg-config files.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME cusight-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION graphics)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Programs: heatmaps, template matching, contour maps, event cameras, live video.")
set(CPACK_DEBIAN_GSTREAMER_PACKAGE_NAME gstreamer1.0-cusight)
set(CPACK_DEBIAN_GSTREAMER_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_GSTREAMER_PACKAGE_RECOMMENDS "gstreamer1.0-plugins-base, gstreamer1.0-plugins-good") # decode the template of cusmatch
set(CPACK_COMPONENT_GSTREAMER_DESCRIPTION "GStreamer elements: heatmaps, motion, template matching, sparse differences.")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME cusight-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION oldlibs) # it had cusight-events-mpi: an upgrade brings what replaces that
set(CPACK_DEBIAN_MPI_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "cusight-tools (>= ${PROJECT_VERSION})")
string(CONCAT CPACK_COMPONENT_MPI_DESCRIPTION "transitional package for cusight-tools\n" # packages_finish.cmake makes this the summary
    "cusight-events --shard and merge, in cusight-tools, replace\ncusight-events-mpi. This package is empty and can be removed.")

if(CMAKE_INSTALL_LIBDIR MATCHES "/.") # with the name of the architecture
    set(CPACK_DEBIAN_RUNTIME_PACKAGE_MULTIARCH same)
    set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_MULTIARCH same)
endif()

# ---- Dependencies ------------------------------------------------------------------------------------------------------
# dpkg-shlibdeps finds those of shared libraries. For others, the files' packages are asked for; a file of no package (CUDA from
# NVIDIA's installer) is left to the user.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_GSTREAMER_PACKAGE_SHLIBDEPS ON)
find_program(CUSIGHT_DPKG_QUERY dpkg-query)
mark_as_advanced(CUSIGHT_DPKG_QUERY)
function(cusight_packages_of result) # FILE...
    set(packages "")
    foreach(file IN LISTS ARGN)
        set(owner "")
        if(CUSIGHT_DPKG_QUERY AND EXISTS "${file}")
            execute_process(COMMAND ${CUSIGHT_DPKG_QUERY} -S ${file} OUTPUT_VARIABLE owner ERROR_QUIET)
        endif()
        if(owner MATCHES "^([a-z0-9.+-]+)[:,]")
            list(APPEND packages ${CMAKE_MATCH_1})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES packages)
    list(JOIN packages ", " packages)
    set(${result} "${packages}" PARENT_SCOPE)
endfunction()

set(files ${CUSIGHT_STATIC_FILES}) # what the static library links
if(linker_language STREQUAL CXX)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND files ${file})
endif()
if(CUSIGHT_HAVE_CUDA)
    file(REAL_PATH "${CUDA_cudart_static_LIBRARY}" file) # /usr/local/cuda is a link of no package
    list(APPEND files ${file})
endif()
cusight_packages_of(packages ${files})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libcusight${version} (= ${PROJECT_VERSION})")
if(packages)
    string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", ${packages}")
endif()
if(CUSIGHT_HAVE_CUDA) # opened when it is first needed, so that dpkg-shlibdeps does not see it
    file(REAL_PATH "${CUDA_cufft_LIBRARY}" file)
    cusight_packages_of(packages ${file})
    foreach(component RUNTIME TOOLS GSTREAMER)
        list(APPEND CPACK_DEBIAN_${component}_PACKAGE_RECOMMENDS ${packages})
        list(JOIN CPACK_DEBIAN_${component}_PACKAGE_RECOMMENDS ", " CPACK_DEBIAN_${component}_PACKAGE_RECOMMENDS)
    endforeach()
endif()

# ---- What is inside (SPDX) ---------------------------------------------------------------------------------------------
# packages_sbom.cmake writes it for each package: the libraries that its files link, and what was compiled into them.
find_program(CUSIGHT_PYTHON3 python3)
mark_as_advanced(CUSIGHT_PYTHON3)
set(compiled "")
if(CUSIGHT_HAVE_CUDA)
    list(APPEND compiled "CUB=${CUDAToolkit_VERSION}")
endif()
set(CPACK_CUSIGHT_CONTAINS_DEVELOPMENT ${compiled}) # the static library leaves the CUDA runtime to who links it
if(CUSIGHT_HAVE_CUDA)
    list(APPEND compiled "CUDA runtime=${CUDAToolkit_VERSION}")
endif()
set(CPACK_CUSIGHT_CONTAINS_RUNTIME ${compiled})
list(APPEND compiled "cusight=${PROJECT_VERSION}")
set(CPACK_CUSIGHT_CONTAINS_GSTREAMER ${compiled})
if(CUSIGHT_HAVE_PICTURES AND NOT diffstream_missing)
    list(APPEND compiled "Boost=${boost}")
endif()
if(CUSIGHT_HAVE_WEB) # the library that the page loads, with its C library
    list(APPEND compiled ${CUSIGHT_WEB_CONTAINS})
endif()
set(CPACK_CUSIGHT_CONTAINS_TOOLS ${compiled})
set(CPACK_CUSIGHT_SBOM ${CUSIGHT_PYTHON3} ${PROJECT_SOURCE_DIR}/scripts/sbom)
set(CPACK_CUSIGHT_VERSION ${PROJECT_VERSION})
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/packages_sbom.cmake)

# ---- Documents, and what Debian's policy wants otherwise ---------------------------------------------------------------
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(documents ${PROJECT_BINARY_DIR}/packages)
file(WRITE ${documents}/changelog "cusight (${PROJECT_VERSION}) unstable; urgency=medium\n\n"
    "  * Release ${PROJECT_VERSION}; CHANGELOG.md in the sources says what changed.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
if(CUSIGHT_GZIP)
    execute_process(COMMAND ${CUSIGHT_GZIP} -9nf ${documents}/changelog)
endif()
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    install(FILES packaging/debian/copyright ${documents}/changelog.gz EXCLUDE_FROM_ALL COMPONENT ${component}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
endforeach()
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/packages_finish.cmake)

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME cusight-${PROJECT_VERSION})
set(CPACK_SOURCE_IGNORE_FILES "^${PROJECT_SOURCE_DIR}/(build[^/]*|out|dist|bindings/rust/target|packaging/conan/test_package/build|\\\\.git|\\\\.cache|\\\\.vscode|\\\\.idea)(/|$)" "/(__pycache__|\\\\.[a-z]+_cache)(/|$)"
    "^${PROJECT_BINARY_DIR}/" "/CMakeUserPresets\\\\.json$")
include(CPack)
