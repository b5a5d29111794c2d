# Windows, pictures, videos and cameras need OpenCV and FFmpeg's libraries: all programs do but cusight-events, which makes frames without
# them, and cusight-info. cusight-heatmap reports what moves with FFmpeg's libraries alone. Sets CUSIGHT_HAVE_LIBAV,
# CUSIGHT_HAVE_PICTURES, and pictures_missing to what was not found for the latter.
set(pictures_missing "")
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(LIBAV QUIET IMPORTED_TARGET libavformat libavcodec libavutil libswscale)
endif()
set(CUSIGHT_HAVE_LIBAV OFF)
if(LIBAV_FOUND AND NOT LIBAV_libavformat_VERSION VERSION_LESS ${CUSIGHT_MIN_LIBAVFORMAT})
    set(CUSIGHT_HAVE_LIBAV ON)
endif()
if(NOT OpenCV_FOUND)
    set(pictures_missing OpenCV) # which has been said
elseif(NOT TARGET opencv_videoio OR NOT TARGET opencv_highgui)
    set(pictures_missing "OpenCV's videoio and highgui")
    cusight_without(${pictures_missing} libopencv-dev "${CUSIGHT_WITHOUT_PICTURES}")
elseif(NOT CUSIGHT_HAVE_LIBAV)
    set(pictures_missing libavformat)
    cusight_without(libavformat "pkg-config libavformat-dev libavcodec-dev libswscale-dev" "${CUSIGHT_WITHOUT_PICTURES}"
        ${LIBAV_libavformat_VERSION})
endif()
set(CUSIGHT_HAVE_PICTURES OFF)
if(NOT pictures_missing)
    set(CUSIGHT_HAVE_PICTURES ON)
endif()
