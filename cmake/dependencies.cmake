# Optional libraries: the least version of each, which is checked, and what is missing without it, which is said once, by name. The
# docs/build.md says which versions were tried.
set(CUSIGHT_MIN_OPENCV 4.5)
set(CUSIGHT_MIN_LIBAVFORMAT 58.76) # FFmpeg 4.4
set(CUSIGHT_MIN_HDF5 1.10.5)
set(CUSIGHT_MIN_ZSTD 1.4.0)
set(CUSIGHT_MIN_BOOST 1.74)
set(CUSIGHT_MIN_OPENSSL 1.1.1)
set(CUSIGHT_MIN_GTEST 1.10)
set(CUSIGHT_MIN_JSON 3.9)
set(CUSIGHT_MIN_GSTREAMER 1.22)
set(CUSIGHT_WITHOUT_PICTURES "of the programs only cusight-info and cusight-events, without windows, pictures, videos and cameras; with FFmpeg's libraries also the motion report of cusight-heatmap")

# cusight_without(NAME PACKAGE COST): NAME was not found, or is older than its least version.
function(cusight_without name package cost)
    string(TOUPPER ${name} upper)
    set(least "")
    if(DEFINED CUSIGHT_MIN_${upper})
        set(least " ${CUSIGHT_MIN_${upper}} or later")
    endif()
    set(found "was not found")
    if(ARGN)
        set(found "is needed, found ${ARGN}")
    endif()
    message(STATUS "Without ${name}${least} (${found}; Debian: ${package}): ${cost}")
endfunction()
