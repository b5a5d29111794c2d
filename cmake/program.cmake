# Programs for users: cusight_program() makes one in the build folder's bin/, cusight_manual() its manual page and completion. The
# target cusight_programs is all of them.
add_custom_target(cusight_programs)
function(cusight_program name) # SOURCE...
    add_executable(cusight-${name} ${ARGN})
    set_target_properties(cusight-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    target_link_libraries(cusight-${name} PRIVATE cusight_flags)
    add_dependencies(cusight_programs cusight-${name})
    if(CUSIGHT_INSTALL)
        install(TARGETS cusight-${name})
    endif()
endfunction()

# The completion of bash and zsh, which the program prints from its options, and the manual page, which help2man makes of its help.
find_program(CUSIGHT_GZIP gzip)
find_program(CUSIGHT_HELP2MAN help2man)
mark_as_advanced(CUSIGHT_GZIP CUSIGHT_HELP2MAN)
if(CUSIGHT_SAMPLES AND NOT CUSIGHT_HELP2MAN AND NOT CMAKE_CROSSCOMPILING)
    cusight_without(help2man help2man "no manual pages of the programs")
endif()
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
    set(environment ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0)
    set(program $<TARGET_FILE:cusight-${name}>)
    set(files ${manuals}/cusight-${name} ${manuals}/_cusight-${name})
    set(page "")
    set(page_command "")
    if(CUSIGHT_HELP2MAN)
        set(page ${manuals}/cusight-${name}.1)
        set(page_command COMMAND ${environment} ${program} --generate-include > ${page}.include
            COMMAND ${environment} ${CUSIGHT_HELP2MAN} --no-info --include ${page}.include --source "cusight ${PROJECT_VERSION}" --help-option --generate-help
                --version-string ${PROJECT_VERSION} --output ${page} ${program}
            COMMAND ${CMAKE_COMMAND} -E rm ${page}.include)
        if(CUSIGHT_GZIP)
            list(APPEND page_command COMMAND ${CUSIGHT_GZIP} -9nf ${page})
            string(APPEND page .gz)
        endif()
    endif()
    add_custom_command(OUTPUT ${page} ${files}
        COMMAND ${environment} ${program} --generate-bash > ${manuals}/cusight-${name}
        COMMAND ${environment} ${program} --generate-zsh > ${manuals}/_cusight-${name}
        ${page_command}
        DEPENDS cusight-${name} COMMENT "Manual page and completion of cusight-${name}" VERBATIM)
    add_custom_target(cusight-${name}-manual ALL DEPENDS ${page} ${files})
    add_dependencies(cusight_programs cusight-${name}-manual)
    if(CUSIGHT_INSTALL)
        install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
        install(FILES ${manuals}/cusight-${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
        install(FILES ${manuals}/_cusight-${name} DESTINATION ${zsh_folder} OPTIONAL)
    endif()
endfunction()
