# Sets CMAKE_CUDA_ARCHITECTURES unless it is set: every major architecture. `native` means the GPUs of this machine, or 9.0 where
# there are none (CMake's own `native` fails there, and needs CMake 3.24).
if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES all-major)
    if(CMAKE_VERSION VERSION_LESS 3.23) # which does not know all-major
        set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
    endif()
elseif(CMAKE_CUDA_ARCHITECTURES STREQUAL "native")
    set(capabilities "")
    find_program(CUSIGHT_NVIDIA_SMI nvidia-smi)
    mark_as_advanced(CUSIGHT_NVIDIA_SMI)
    if(CUSIGHT_NVIDIA_SMI)
        execute_process(COMMAND ${CUSIGHT_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
            OUTPUT_VARIABLE capabilities ERROR_QUIET)
        string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
        list(TRANSFORM capabilities REPLACE "\\." "")
        list(REMOVE_DUPLICATES capabilities)
    endif()
    if(NOT capabilities)
        set(capabilities 90)
        message(STATUS "cusight: there is no GPU here, so CUDA code is built for architecture 9.0")
    endif()
    set(CMAKE_CUDA_ARCHITECTURES ${capabilities})
endif()
