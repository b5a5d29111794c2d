# The NVIDIA GPUs of this machine, found without running CUDA code: sets gpu_found, and gpu_architectures (such as 86;90) if nvidia-smi
# tells them. A container may have the device without nvidia-smi; under Windows the driver's library is the sign.
find_program(CUSIGHT_NVIDIA_SMI nvidia-smi)
mark_as_advanced(CUSIGHT_NVIDIA_SMI)
set(gpu_architectures "")
if(CUSIGHT_NVIDIA_SMI)
    execute_process(COMMAND ${CUSIGHT_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
        OUTPUT_VARIABLE gpu_architectures ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" gpu_architectures "${gpu_architectures}")
    list(TRANSFORM gpu_architectures REPLACE "\\." "")
    list(REMOVE_DUPLICATES gpu_architectures)
endif()
set(gpu_found OFF)
if(gpu_architectures OR EXISTS /dev/nvidiactl OR EXISTS /usr/lib/wsl/lib/libcuda.so.1)
    set(gpu_found ON)
endif()
