# The shared library, of the sources that this file is in: `vcpkg install cusight --overlay-ports=packaging/vcpkg`. vcpkg's cache does
# not see that these change: `vcpkg remove cusight` and --binarysource=clear build them anew.
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES
    bzip2 CUSIGHT_BZIP2
    cuda CUSIGHT_CUDA
    lz4 CUSIGHT_LZ4
    zstd CUSIGHT_ZSTD)
if("cuda" IN_LIST FEATURES)
    vcpkg_find_cuda(OUT_CUDA_TOOLKIT_ROOT toolkit)
    list(APPEND features "-DCMAKE_CUDA_COMPILER=${toolkit}/bin/nvcc")
endif()
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS ${features} -DCUSIGHT_BLOSC=OFF -DCUSIGHT_OPENCV=OFF -DCUSIGHT_SAMPLES=OFF -DCUSIGHT_GSTREAMER=OFF -DCUSIGHT_TESTS=OFF
        -DCUSIGHT_PERF=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/cusight)
vcpkg_fixup_pkgconfig()
# A folder with a static library has no shared one beside it.
foreach(folder "${CURRENT_PACKAGES_DIR}" "${CURRENT_PACKAGES_DIR}/debug")
    file(GLOB static "${folder}/lib/libcusight.a" "${folder}/share/cusight/cusight-static-targets*.cmake")
    file(REMOVE ${static})
endforeach()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/packaging/debian/copyright")
