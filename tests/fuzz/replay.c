/* replay.c - runs a fuzz target without libFuzzer: replay [--count N] [--seed S] [FILE or FOLDER ...]
 *
 * Every file given, then N inputs of random bytes (default 300).
 */
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

enum { LARGEST = 4096 };

static int run_file(const char *path)
{
    static uint8_t data[LARGEST];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "cannot read %s\n", path);
        return 2;
    }
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    return 0;
}

static int run_path(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        return run_file(path);
    int status = 0;
    for (struct dirent *entry; status == 0 && (entry = readdir(folder));) {
        char name[1024];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            status = run_file(name);
    }
    closedir(folder);
    return status;
}

int main(int argc, char **argv)
{
    static uint8_t data[LARGEST];
    long count = 300;
    uint64_t seed = 1;
    const char *given = getenv("LAB_TEST_SEED");
    if (given)
        seed = strtoull(given, NULL, 10);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--count") && i + 1 < argc)
            count = strtol(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (run_path(argv[i]) != 0)
            return 2;
    }
    for (long i = 0; i < count; i++) {
        uint64_t state = seed * 1000003 + (uint64_t)i;
        size_t size = 16 + (size_t)(i * 37 % 600);
        for (size_t j = 0; j < size; j++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            data[j] = (uint8_t)(state >> 56);
        }
        fprintf(stderr, "\rinput %ld of %ld (seed %llu)", i + 1, count, (unsigned long long)seed);
        LLVMFuzzerTestOneInput(data, size);
    }
    fprintf(stderr, "\n");
    return 0;
}
