# How the built files resist attack. test/packaging/hardening.sh reads the built files and checks all of it.

# ---- Where the loader looks for libraries ------------------------------------------------------------------------------
# The build tree's files get their final RUNPATH at once. Otherwise CMake ends it with an empty element, room for what it
# writes at installation, and the loader takes an empty element for the current directory.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# cusight_no_runpath(LIBRARY...): no RUNPATH for a link such as Debian's hdf5/serial/libhdf5.so to a library that is in a folder
# that the loader searches anyway. (CMAKE_PLATFORM_IMPLICIT_LINK_DIRECTORIES : never in a RUNPATH.)
macro(cusight_no_runpath)
    foreach(hardening_library ${ARGN})
        if(IS_ABSOLUTE "${hardening_library}" AND EXISTS "${hardening_library}")
            get_filename_component(hardening_folder "${hardening_library}" DIRECTORY)
            get_filename_component(hardening_real "${hardening_library}" REALPATH)
            get_filename_component(hardening_real "${hardening_real}" DIRECTORY)
            if(NOT hardening_folder STREQUAL hardening_real AND hardening_real IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
                list(APPEND CMAKE_PLATFORM_IMPLICIT_LINK_DIRECTORIES ${hardening_folder})
            endif()
        endif()
    endforeach()
endmacro()

# ---- Flags -------------------------------------------------------------------------------------------------------------
option(CUSIGHT_HARDENING "Fortified C library calls, stack protection, read-only relocations, control-flow marks, PIE" ON)
if(NOT CUSIGHT_HARDENING OR CUSIGHT_SANITIZE OR CUSIGHT_FUZZ) # a sanitizer checks the same more thoroughly, and is confused by it
    return()
endif()

include(CheckPIESupported)
check_pie_supported(OUTPUT_VARIABLE hardening_output LANGUAGES C CXX)
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)

set(hardening "")
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
    string(MAKE_C_IDENTIFIER "CUSIGHT_HAS${flag}" has)
    check_c_compiler_flag(${flag} ${has}) # -fcf-protection: x86 only
    if(${has})
        list(APPEND hardening ${flag})
    endif()
endforeach()
target_compile_options(cusight_flags INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${hardening}>")
# nvcc's host compiler gets the same flags; they leave device code as it is. _FORTIFY_SOURCE would not: nvcc defines it for
# both sides, and the C library's headers change with it.
string(REPLACE ";" "," hardening_list "${hardening}")
if(hardening)
    target_compile_options(cusight_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${hardening_list}>")
endif()

# Level 3 also checks sizes that are only known at run time. The C library warns if the compiler has only level 2; without
# optimization it has neither.
set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }" CUSIGHT_HAS_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)
set(CUSIGHT_FORTIFY $<IF:$<BOOL:${CUSIGHT_HAS_FORTIFY_3}>,3,2>)
target_compile_options(cusight_flags INTERFACE
    "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${CUSIGHT_FORTIFY}>")

foreach(flag -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
    string(MAKE_C_IDENTIFIER "CUSIGHT_HAS${flag}" has)
    check_linker_flag(C ${flag} ${has})
    if(${has})
        target_link_options(cusight_flags INTERFACE ${flag})
    endif()
endforeach()
