# What `--web` of the programs needs: a compiler for WebAssembly, zstd as one source file for it, and Boost.Beast. Sets CUSIGHT_HAVE_WEB, or
# web_missing to the reason. cusight_decoder() makes decoder.wasm of the library's own sources.
set(CUSIGHT_WEB AUTO CACHE STRING "Serve viewers in browsers: AUTO (if clang for WebAssembly, zstd's source and Boost.Beast are found), ON or OFF")
set(cache "$ENV{CUSIGHT_CACHE}")
if(NOT cache)
    set(cache "$ENV{HOME}/.cache/cusight")
    if(DEFINED ENV{XDG_CACHE_HOME})
        set(cache "$ENV{XDG_CACHE_HOME}/cusight")
    endif()
endif()
set(CUSIGHT_ZSTD_SOURCE "${cache}/zstd" CACHE PATH "Folder with zstd.c and zstd.h in one file each, which scripts/setup fetches")
find_program(CUSIGHT_WASM_CLANG NAMES clang clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
find_path(CUSIGHT_BEAST_INCLUDE_DIR boost/beast/websocket.hpp)
mark_as_advanced(CUSIGHT_WASM_CLANG CUSIGHT_BEAST_INCLUDE_DIR)

# One module of all sources, optimized when it is linked: only what the decoder calls is compiled.
set(CUSIGHT_WASM_COMMAND ${CUSIGHT_WASM_CLANG} --target=wasm32-wasi -mexec-model=reactor -std=gnu11 -O3 -msimd128 -flto -fvisibility=hidden
    -Xclang -disable-llvm-passes -Wl,--lto-O3 -Wl,--gc-sections -Wl,--strip-all -Wl,--stack-first -Wl,-z,stack-size=1048576)

# Whether the compiler links for WebAssembly, with a C library; tried once for each compiler.
function(cusight_try_wasm)
    if(NOT CUSIGHT_WASM_CLANG OR "${CUSIGHT_WASM_TRIED}" STREQUAL "${CUSIGHT_WASM_CLANG}")
        return()
    endif()
    set(source ${PROJECT_BINARY_DIR}/CMakeFiles/try_wasm.c)
    file(WRITE ${source} "#include <stdlib.h>\nvoid *take(int n) { return malloc((size_t)n * 8); }\n")
    execute_process(COMMAND ${CUSIGHT_WASM_COMMAND} -Wl,--export=take ${source} -o ${source}.wasm RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    set(works ON)
    if(failed)
        set(works OFF)
    endif()
    set(CUSIGHT_WASM_WORKS ${works} CACHE INTERNAL "")
    set(CUSIGHT_WASM_TRIED ${CUSIGHT_WASM_CLANG} CACHE INTERNAL "")
endfunction()

set(CUSIGHT_HAVE_WEB OFF)
if(NOT CUSIGHT_WEB)
    set(web_missing "this build has CUSIGHT_WEB=OFF")
else()
    cusight_try_wasm()
    if(NOT CUSIGHT_WASM_WORKS)
        set(web_missing "this build found no clang for WebAssembly (Debian: clang lld wasi-libc libclang-rt-14-dev-wasm32)")
    elseif(NOT EXISTS ${CUSIGHT_ZSTD_SOURCE}/zstd.c)
        set(web_missing "this build found no zstd.c in ${CUSIGHT_ZSTD_SOURCE} (scripts/setup fetches it)")
    elseif(NOT CUSIGHT_BEAST_INCLUDE_DIR)
        set(web_missing "this build found no Boost.Beast (Debian: libboost-dev)")
    else()
        set(web_missing "")
        set(CUSIGHT_HAVE_WEB ON)
    endif()
    if(web_missing AND NOT CUSIGHT_WEB STREQUAL "AUTO")
        message(FATAL_ERROR "CUSIGHT_WEB is ${CUSIGHT_WEB}, but ${web_missing}")
    elseif(web_missing)
        message(STATUS "Without --web of cusight-diffstream and cusight-events: ${web_missing}")
    endif()
endif()

function(cusight_decoder glue output)
    set(root ${PROJECT_SOURCE_DIR})
    set(sources ${root}/modules/live/viewer.c ${root}/modules/live/wire.c ${root}/modules/live/crc32c.c ${root}/modules/live/compress.c
        ${root}/modules/framediff/framediff.c ${root}/modules/framediff/cpu/heatmap.c)
    foreach(part check status mat guard device_none device_memory)
        list(APPEND sources ${root}/src/${part}.c)
    endforeach()
    file(GLOB headers ${root}/include/cusight/*.h ${root}/src/*.h ${root}/modules/live/*.h ${root}/modules/framediff/*.h)
    # __EMSCRIPTEN__ is how zstd's one file is told that there are no threads. The warnings are those of size_t with 32 bits.
    add_custom_command(OUTPUT ${output}
        COMMAND ${CUSIGHT_WASM_COMMAND} -ffile-prefix-map=${root}=. -w -D_GNU_SOURCE -DCUSI_WITH_ZSTD=1 -D__EMSCRIPTEN__ -I${root}/include -I${root}/src -I${root}/modules
            -I${CUSIGHT_ZSTD_SOURCE} ${glue} ${sources} ${CUSIGHT_ZSTD_SOURCE}/zstd.c -o ${output}
        DEPENDS ${glue} ${sources} ${headers} ${CUSIGHT_ZSTD_SOURCE}/zstd.c
        COMMENT "The decoder for browsers" VERBATIM)
endfunction()
