# On the device, cuFFT transforms large frames and, once, the templates. It is linked as a shared library: the static one adds
# over 100 MB. Scores must be the same bit for bit on both backends, so multiply-adds are not contracted; the device's own
# transforms call fmaf.
if(CUSIGHT_HAVE_CUDA)
    target_link_libraries(cusight_objects PRIVATE CUDA::cufft)
    list(APPEND private_libraries CUDA::cufft)
    file(GLOB match_kernels CONFIGURE_DEPENDS modules/match/*.cu)
    set_source_files_properties(${match_kernels} PROPERTIES COMPILE_OPTIONS --fmad=false)
endif()
