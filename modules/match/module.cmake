# On the device, cuFFT transforms large frames and, once, the templates. It is linked as a shared library: the static one adds
# over 100 MB. Scores must be the same bit for bit on both backends, so multiply-adds are not contracted; the device's own
# transforms call fmaf.
if(CUSIGHT_HAVE_CUDA)
    target_link_libraries(cusight_objects PRIVATE CUDA::cufft)
    list(APPEND private_libraries CUDA::cufft)
    file(GLOB match_kernels CONFIGURE_DEPENDS modules/match/*.cu)
    set_source_files_properties(${match_kernels} PROPERTIES COMPILE_OPTIONS --fmad=false)
endif()

# On the host: OpenCV's core if it was found, else KissFFT (BSD), else no FFT: the host then always correlates directly.
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
