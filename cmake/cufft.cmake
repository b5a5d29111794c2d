# On the device, cuFFT transforms large frames, once the templates, and poses that bounds leave. modules/match/cuda/cufft/open.c opens it when
# it is first needed, so the library does not depend on it: the kernels' calls get the names defined there. (The static cuFFT adds over
# 100 MB.)
# Scores must be the same bit for bit on both backends, so multiply-adds are not contracted; the device's own transforms call
# fmaf.
if(CUSIGHT_HAVE_CUDA)
    file(GLOB_RECURSE match_kernels CONFIGURE_DEPENDS modules/match/*.cu)
    set(renamed "")
    foreach(function Create Destroy MakePlanMany64 SetAutoAllocation SetWorkArea SetStream ExecR2C ExecC2R ExecD2Z ExecZ2D)
        list(APPEND renamed cufft${function}=cusi_cufft${function})
    endforeach()
    set_source_files_properties(${match_kernels} PROPERTIES COMPILE_OPTIONS --fmad=false COMPILE_DEFINITIONS "${renamed}")
    set_source_files_properties(modules/pose/cuda/transforms.cu PROPERTIES COMPILE_DEFINITIONS "${renamed}")
    if(NOT CMAKE_CROSSCOMPILING) # the other machine's CUDA is where NVIDIA's packages put it
        set_source_files_properties(modules/match/cuda/cufft/open.c PROPERTIES COMPILE_DEFINITIONS
            "CUSI_CUFFT_FOLDER=\"${CUDAToolkit_LIBRARY_DIR}\"")
    endif()
    list(APPEND private_libraries ${CMAKE_DL_LIBS})
endif()
