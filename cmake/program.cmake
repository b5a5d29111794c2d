# Programs for users: cusight_program() makes one in the build folder's bin/, cusight_manual() its manual page and completion.
function(cusight_program name) # SOURCE...
    add_executable(cusight-${name} ${ARGN})
    set_target_properties(cusight-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    target_link_libraries(cusight-${name} PRIVATE cusight_flags)
    if(CUSIGHT_INSTALL)
        install(TARGETS cusight-${name})
    endif()
endfunction()

# The manual page and the completion of bash and zsh, which the program prints from its options.
find_program(CUSIGHT_GZIP gzip)
mark_as_advanced(CUSIGHT_GZIP)
function(cusight_manual name)
    if(CMAKE_CROSSCOMPILING)
        return()
    endif()
    set(manuals ${PROJECT_BINARY_DIR}/manuals)
    file(MAKE_DIRECTORY ${manuals})
    set(zsh_folder ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
        set(zsh_folder ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
    endif()
    set(run ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:cusight-${name}>)
    set(page ${manuals}/cusight-${name}.1)
    set(pack "")
    if(CUSIGHT_GZIP)
        set(pack COMMAND ${CUSIGHT_GZIP} -9nf ${page})
        string(APPEND page .gz)
    endif()
    add_custom_command(OUTPUT ${page} ${manuals}/cusight-${name} ${manuals}/_cusight-${name}
        COMMAND ${run} --generate-man > ${manuals}/cusight-${name}.1
        ${pack}
        COMMAND ${run} --generate-bash > ${manuals}/cusight-${name}
        COMMAND ${run} --generate-zsh > ${manuals}/_cusight-${name}
        DEPENDS cusight-${name} COMMENT "Manual page and completion of cusight-${name}" VERBATIM)
    add_custom_target(cusight-${name}-manual ALL DEPENDS ${page})
    if(CUSIGHT_INSTALL)
        install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
        install(FILES ${manuals}/cusight-${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
        install(FILES ${manuals}/_cusight-${name} DESTINATION ${zsh_folder} OPTIONAL)
    endif()
endfunction()
