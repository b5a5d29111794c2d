# modules/match/cuda/wgmma.cu multiplies by instructions that only 9.0a has, so where 9.0 is built for, this file is compiled for 9.0a too
# (CUDA 12 or later). Devices of 9.0 prefer that code to the file's for 9.0, which is empty, as for all other architectures.
if(CUSIGHT_HAVE_CUDA AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0 AND ";${CMAKE_CUDA_ARCHITECTURES};" MATCHES ";(90(-real)?|all(-major)?);")
    set_property(SOURCE modules/match/cuda/wgmma.cu APPEND PROPERTY COMPILE_OPTIONS --generate-code=arch=compute_90a,code=sm_90a)
endif()
