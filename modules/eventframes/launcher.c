/* Finds this process's place among those of a launcher, which sets environment variables. */
#include "check.h"
#include "cusight/eventframes.h"

#include <errno.h>
#include <stdlib.h>

static const char function[] = "cusEventFramesLauncherShard";

/* Variables with the rank and the number of ranks. MPI comes first, since mpirun in a Slurm job starts its processes by
 * a step of Slurm. Slurm's batch script itself is no step and has no rank. */
static const struct {
    const char *rank, *size;
} RANKS[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

/* Reads a number of at most `most`. *is_set is 0 if there is no such variable. */
static cusStatus read(const char *name, uint64_t most, uint64_t *value, int *is_set) {
    const char *const text = getenv(name);
    char *end = NULL;
    *is_set = text != NULL;
    if (!text)
        return CUS_OK;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    CUSI_REQUIRE(*text >= '0' && *text <= '9' && !*end && !errno && number <= most, CUS_ERROR_VALUE,
                 "%s: %s is '%s', expected a number up to %llu", function, name, text, (unsigned long long)most);
    *value = number;
    return CUS_OK;
}

/* Reads a pair of variables. *is_set: whether both exist. */
static cusStatus readPlace(const char *rank, const char *size, uint64_t *shard, uint64_t *shards, int *is_set) {
    int has_size;
    CUS_TRY(read(rank, UINT32_MAX, shard, is_set));
    CUS_TRY(read(size, UINT32_MAX, shards, &has_size));
    *is_set &= has_size;
    return CUS_OK;
}

/* Reads the place in a Slurm job array, FIRST-LAST or FIRST-LAST:STEP. */
static cusStatus readArray(uint64_t *shard, uint64_t *shards, int *is_set) {
    uint64_t first = 0, step = 1;
    int ignored;
    CUS_TRY(readPlace("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", shard, shards, is_set));
    CUS_TRY(read("SLURM_ARRAY_TASK_MIN", UINT32_MAX, &first, &ignored));
    CUS_TRY(read("SLURM_ARRAY_TASK_STEP", UINT32_MAX, &step, &ignored));
    if (!*is_set)
        return CUS_OK;
    const uint64_t from_first = *shard - first;
    CUSI_REQUIRE(*shard >= first && step && from_first % step == 0 && from_first / step < *shards, CUS_ERROR_VALUE,
                 "%s: SLURM_ARRAY_TASK_ID is %llu, expected one of %llu numbers from %llu on, every %llu", function,
                 (unsigned long long)*shard, (unsigned long long)*shards, (unsigned long long)first,
                 (unsigned long long)step);
    *shard = from_first / step;
    return CUS_OK;
}

cusStatus cusEventFramesLauncherShard(uint64_t *shard, uint64_t *shards) {
    CUSI_TRACE;
    CUSI_NOT_NULL(function, shard);
    CUSI_NOT_NULL(function, shards);
    uint64_t task = 0, tasks = 1, rank = 0, ranks = 1;
    int is_array, is_rank = 0;
    CUS_TRY(readArray(&task, &tasks, &is_array));
    for (size_t k = 0; k < sizeof RANKS / sizeof *RANKS && !is_rank; ++k)
        CUS_TRY(readPlace(RANKS[k].rank, RANKS[k].size, &rank, &ranks, &is_rank));
    CUSI_REQUIRE(
        is_array || is_rank, CUS_ERROR_VALUE,
        "%s: no launcher has started this process: expected SLURM_ARRAY_TASK_ID, OMPI_COMM_WORLD_RANK, PMI_RANK, or "
        "SLURM_PROCID within a step (srun), each with its number of processes",
        function);
    if (!is_array)
        task = 0, tasks = 1;
    if (!is_rank)
        rank = 0, ranks = 1;
    CUSI_REQUIRE(rank < ranks && tasks * ranks <= (uint64_t)1 << 20, CUS_ERROR_VALUE,
                 "%s: process %llu of %llu in task %llu of %llu, expected less than their number, and up to 2^20 in all",
                 function, (unsigned long long)rank, (unsigned long long)ranks, (unsigned long long)task,
                 (unsigned long long)tasks);
    *shard = task * ranks + rank;
    *shards = tasks * ranks;
    return CUS_OK;
}
