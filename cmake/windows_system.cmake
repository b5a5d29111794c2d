# What the library needs under Windows: functions of POSIX (windows/posix.h), and a DLL that programs of any compiler can link.
target_sources(cusight_objects PRIVATE windows/posix.c)
# Headers of the system that declare more than they do there, or are not there.
foreach(header dirent.h fcntl.h sys/stat.h unistd.h)
    file(WRITE ${PROJECT_BINARY_DIR}/windows/${header} "#include_next <${header}>\n#include <files.h>\n")
endforeach()
foreach(header sys/mman.h sys/random.h sys/utsname.h)
    file(WRITE ${PROJECT_BINARY_DIR}/windows/${header} "#include <files.h>\n")
endforeach()
foreach(header linux/futex.h sys/syscall.h) # in posix.h
    file(WRITE ${PROJECT_BINARY_DIR}/windows/${header} "")
endforeach()
target_include_directories(cusight_objects PRIVATE ${PROJECT_BINARY_DIR}/windows windows)
# -muse-unaligned-vector-move: GCC does not align vectors on this system's stack. -Wno-format: it does not know what vsnprintf is here.
target_compile_options(cusight_objects PRIVATE "$<$<COMPILE_LANGUAGE:C>:-include;posix.h;-Wa,-muse-unaligned-vector-move;-Wno-format>")
target_compile_definitions(cusight_flags INTERFACE _FILE_OFFSET_BITS=64 _WIN32_WINNT=0x0A00) # Windows 10
list(APPEND private_libraries synchronization bcrypt)

# cusight.dll and its import library cusight.lib, which programs of every compiler can link; by LLVM, if it is there, in the form that
# Microsoft's linker makes itself.
find_program(CUSIGHT_DLLTOOL NAMES llvm-dlltool llvm-dlltool-14)
mark_as_advanced(CUSIGHT_DLLTOOL)
function(cusight_windows_library library)
    set_target_properties(${library} PROPERTIES PREFIX "" IMPORT_PREFIX "" IMPORT_SUFFIX .lib)
    if(CUSIGHT_DLLTOOL)
        set(list ${CMAKE_CURRENT_BINARY_DIR}/${library}.def)
        target_link_options(${library} PRIVATE -Wl,--output-def,${list})
        add_custom_command(TARGET ${library} POST_BUILD VERBATIM
            COMMAND ${CUSIGHT_DLLTOOL} -m i386:x86-64 -D $<TARGET_FILE_NAME:${library}> -d ${list} -l $<TARGET_LINKER_FILE:${library}>)
    endif()
endfunction()
