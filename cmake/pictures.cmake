# Windows, pictures, videos and cameras need OpenCV and FFmpeg's libraries: all programs do but cusight-events, which makes frames without
# them, and cusight-info. Sets CUSIGHT_HAVE_PICTURES, or pictures_missing to what was not found.
set(pictures_missing "")
if(NOT OpenCV_FOUND)
    set(pictures_missing OpenCV) # which has been said
elseif(NOT TARGET opencv_videoio OR NOT TARGET opencv_highgui)
    set(pictures_missing "OpenCV's videoio and highgui")
    cusight_without(${pictures_missing} libopencv-dev "${CUSIGHT_WITHOUT_PICTURES}")
else()
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
        pkg_check_modules(LIBAV QUIET IMPORTED_TARGET libavformat libavcodec libavutil libswscale)
    endif()
    if(NOT LIBAV_FOUND OR LIBAV_libavformat_VERSION VERSION_LESS ${CUSIGHT_MIN_LIBAVFORMAT})
        set(pictures_missing libavformat)
        cusight_without(libavformat "pkg-config libavformat-dev libavcodec-dev libswscale-dev" "${CUSIGHT_WITHOUT_PICTURES}"
            ${LIBAV_libavformat_VERSION})
    endif()
endif()
set(CUSIGHT_HAVE_PICTURES OFF)
if(NOT pictures_missing)
    set(CUSIGHT_HAVE_PICTURES ON)
endif()
