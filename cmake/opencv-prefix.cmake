# An OpenCV that has no CMake package: headers in PREFIX/include/opencv4 or opencv5, libraries in PREFIX/lib, as `make install` lays them
# out. Sets what find_package(OpenCV) sets: targets opencv_PART, OpenCV_FOUND, OpenCV_VERSION, OpenCV_INCLUDE_DIRS.
set(OpenCV_FOUND FALSE)
set(OpenCV_INCLUDE_DIRS ${CUSIGHT_OPENCV_PREFIX}/include/opencv4)
if(NOT EXISTS ${OpenCV_INCLUDE_DIRS})
    set(OpenCV_INCLUDE_DIRS ${CUSIGHT_OPENCV_PREFIX}/include/opencv5)
endif()
file(STRINGS ${OpenCV_INCLUDE_DIRS}/opencv2/core/version.hpp lines REGEX "#define CV_VERSION_(MAJOR|MINOR|REVISION) ")
string(REGEX MATCHALL "[0-9]+" OpenCV_VERSION "${lines}")
list(JOIN OpenCV_VERSION "." OpenCV_VERSION)
foreach(part core imgproc imgcodecs videoio highgui features2d calib3d features calib geometry stereo cudaarithm cudaimgproc cudastereo)
    set(file ${CUSIGHT_OPENCV_PREFIX}/lib/libopencv_${part}.so)
    if(EXISTS ${file} AND NOT TARGET opencv_${part})
        add_library(opencv_${part} SHARED IMPORTED GLOBAL)
        # What these libraries need in turn, the loader finds on the machine that runs them.
        set_target_properties(opencv_${part} PROPERTIES IMPORTED_LOCATION ${file}
            INTERFACE_LINK_OPTIONS "LINKER:-rpath-link,${CUSIGHT_OPENCV_PREFIX}/lib;LINKER:--allow-shlib-undefined")
    endif()
endforeach()
if(TARGET opencv_core AND TARGET opencv_imgproc)
    set(OpenCV_FOUND TRUE)
else()
    message(FATAL_ERROR "CUSIGHT_OPENCV_PREFIX is ${CUSIGHT_OPENCV_PREFIX}, expected a folder with lib/libopencv_core.so and "
        "lib/libopencv_imgproc.so")
endif()
