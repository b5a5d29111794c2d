# For programs of tests and measurements: CUSIGHT_ISA chooses the instruction set. test/variants/instruction_set.c says how.
if(TARGET cusight_instruction_set)
    return()
endif()
if(WIN32) # its library has one
    add_library(cusight_instruction_set INTERFACE)
    return()
endif()
add_library(cusight_instruction_set OBJECT ${PROJECT_SOURCE_DIR}/test/variants/instruction_set.c)
target_include_directories(cusight_instruction_set PRIVATE ${PROJECT_SOURCE_DIR}/test ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(cusight_instruction_set PRIVATE cusight_flags)
# It runs before the loader has set up what these need.
target_compile_options(cusight_instruction_set PRIVATE -fno-sanitize=all -fno-stack-protector -ffp-contract=fast)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_link_options(cusight_instruction_set INTERFACE -Wl,--wrap=__cpu_indicator_init)
endif()
