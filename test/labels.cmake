# Run by ctest after it has listed the tests: labels by name.
#   unit    GoogleTest tests; scripts are labeled program
#   cuda    runs on a GPU (skipped by name if there is none); all others are labeled cpu
#   large   uses gigabytes of memory; on a GPU such tests run one at a time beside others, and first, since they take long. Those that
#           exhaust the GPU's memory or watch how much is free run alone
#   cases   goes through so many cases that ThreadSanitizer takes minutes; other tests run the same threads
#   release-only  runs none of the library's code, measures what it makes or how long it takes, or does with real pictures what others do
#           with small ones
set(cases
    EveryRepresentation SensorSizes ManyWindows NormalizedBesideOthers EventHostile EventErrors "EventParts.*Mark" EqualTimes
    SeekingUses AtAllSizes AllSizesTypesLayouts FramediffEdges IntegralChannels "Match[.](PeriodicImages|Lengths|EveryMethod)"
    RealPicturesBeside LargeImages ForAllOptions host_integral GiveTheSameTwice StatesContinueAnywhere TakesTurnsWith
    EachRoundTrips GiveTheSameEventsAndBytes)
list(JOIN cases "|" cases)
foreach(test IN LISTS cusight_tests_TESTS cusight_program_tests_TESTS)
    set(labels unit)
    set(place cpu)
    set(alone FALSE)
    set(lock "")
    set(cost 0)
    if(test MATCHES "/cuda|Cuda[.]|^MultiDevice")
        set(place cuda)
    endif()
    if(test MATCHES "Large|Huge|OutOf.*Memory")
        list(APPEND labels large)
        if(place STREQUAL cuda)
            set(lock gpu_memory)
            set(cost 100)
        endif()
    endif()
    if(test MATCHES "^Sources|GoldenReference|boundIsThePublishedOne|ThirtyKilobytes|TakesNoLonger|RealPairEquals")
        list(APPEND labels release-only)
    endif()
    if(test MATCHES "OpencvCuda[.].*NothingIsAllocated" OR (place STREQUAL cuda AND test MATCHES "OutOf.*Memory|FixedMemory"))
        set(alone TRUE)
    endif()
    if(test MATCHES "${cases}")
        list(APPEND labels cases)
    endif()
    set_tests_properties("${test}" PROPERTIES LABELS "${labels};${place}" RUN_SERIAL ${alone} RESOURCE_LOCK "${lock}" COST ${cost})
endforeach()
