# The device's FFT of large frames, and of templates once, is cuFFT, part of the CUDA toolkit (linked as a shared library: the static one
# adds over 100 MB). Score arithmetic must be the same on both backends, bit for bit, so no multiply-add contraction there either; the
# device's own transforms call fmaf.
if(CUSIGHT_HAVE_CUDA)
    target_link_libraries(cusight_objects PRIVATE CUDA::cufft)
    list(APPEND private_libraries CUDA::cufft)
    set_source_files_properties(modules/match/match_cuda.cu PROPERTIES COMPILE_OPTIONS --fmad=false)
endif()

# The host's FFT: OpenCV's core where it is there, else KissFFT (BSD), else none and the host goes direct.
option(CUSIGHT_HOST_FFT_OPENCV "Use OpenCV's DFT in the host backend where OpenCV is found" ON)
if(OpenCV_FOUND AND CUSIGHT_HOST_FFT_OPENCV)
    target_sources(cusight_objects PRIVATE modules/match/match_fft_opencv.cpp)
    target_compile_definitions(cusight_objects PRIVATE CUSI_FFT_OPENCV=1)
    target_include_directories(cusight_objects SYSTEM PRIVATE ${OpenCV_INCLUDE_DIRS})
    set_source_files_properties(modules/match/match_fft_opencv.cpp PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=off")
    list(APPEND private_libraries opencv_core)
else()
    find_package(kissfft QUIET COMPONENTS SHARED)
    if(TARGET kissfft::kissfft-float)
        target_compile_definitions(cusight_objects PRIVATE CUSI_FFT_KISS=1)
        target_link_libraries(cusight_objects PRIVATE kissfft::kissfft-float)
        list(APPEND private_libraries kissfft::kissfft-float)
    endif()
endif()
