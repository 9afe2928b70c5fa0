/* test_cases.c - runs files of cases from outside: public bug reports with right answers. See cases/open.md. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cases_by_hand.h"

#ifndef CASES_FILE
#define CASES_FILE "tests/cases/open.json"
#endif

/* Parts of the committed file that the library cannot run yet. These numbers may only shrink. */
static const struct {
    const char *path;
    int unsupported;
} expected[] = {{"composed", 28}, {"fused", 26}, {"both", 26}};

enum { EXIT_BAD_USE = 2 };

static const char usage[] = "usage: test_cases [--path composed|fused|both] [FILE.json ...]\n"
                            "\n"
                            "Runs every part of files of cases (see tests/cases/open.md) and prints a line for each:\n"
                            "\n"
                            "    ID OP passed|failed|unsupported|stretch|by-hand ERROR\n"
                            "\n"
                            "ERROR is the worst one in units of what the part allows. A part of 'stretch' is run and\n"
                            "never counts as failed; one 'by hand' has a test of its own, which is named.\n"
                            "\n"
                            "  --path PATH  composed (the default), fused, or both, for ops that have both forms\n"
                            "  --help       this text\n"
                            "\n"
                            "Without a file: " CASES_FILE "; the number of\n"
                            "unsupported parts of that file is known, and another number is a failure.\n"
                            "Exit status: 0; 1 if a part failed; 2 if a file or an option makes no sense.\n";

typedef struct tally {
    int parts, passed, failed, unsupported, stretch, stretch_met, by_hand;
    double worst;
    char worst_of[128];
} tally;

/* ---- Memory that is never clean ---------------------------------------------------------------------------------- */

/* Every byte of what the library gets is 0xFF: a NaN in either precision. Old memory that shines through shows. */
static void *allocate(size_t bytes, size_t alignment, void *ctx)
{
    (void)ctx;
    void *memory = NULL;
    alignment = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    if (posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0)
        return NULL;
    return memset(memory, 0xFF, bytes);
}

static void release(void *memory, size_t bytes, void *ctx)
{
    (void)bytes;
    (void)ctx;
    free(memory);
}

/* ---- Parts ------------------------------------------------------------------------------------------------------- */

static const char *test_by_hand(const char *id)
{
#define TEST_OF(part, test)                                                                                            \
    if (strcmp(id, #part) == 0)                                                                                        \
        return #test;
    CASES_BY_HAND(TEST_OF)
#undef TEST_OF
    return NULL;
}

static void print_line(const part *p, const char *word, double worst, const char *more)
{
    printf("%-6s %-17s %-11s", p->id, p->op, word);
    if (worst >= 0)
        printf(" %-8.2g", worst);
    printf("%s%s\n", *more ? " " : "", more);
}

static verdict verdict_of(const part *p, const char *path)
{
    verdict v = {.outcome = PASSED};
    const op_entry *entry = op_named(p->op);
    bool fused = strcmp(path, "composed") != 0, composed = strcmp(path, "fused") != 0;
    if (!entry) {
        v.outcome = UNSUPPORTED;
        snprintf(v.why, sizeof v.why, "the library has no %s", p->op);
    } else if (strcmp(p->needs, "fused") == 0 && !fused) {
        v.outcome = UNSUPPORTED;
        snprintf(v.why, sizeof v.why, "the fused path only");
    } else {
        if (composed && strcmp(p->needs, "fused") != 0)
            run_part(p, entry, LAB_PATH_COMPOSED, &v);
        if (fused && (entry->paths || !composed))
            run_part(p, entry, LAB_PATH_FUSED, &v);
    }
    return v;
}

static void run_by_hand(const part *p, tally *t)
{
    const char *test = test_by_hand(p->id);
    print_line(p, test ? "by-hand" : "failed", -1, test ? test : "by hand, but no test of its own");
    t->by_hand += test != NULL;
    t->failed += test == NULL;
}

static void run_one(const part *p, const char *path, tally *t)
{
    static const char *const words[] = {"passed", "unsupported", "failed"};
    t->parts++;
    if (strcmp(p->needs, "by hand") == 0) {
        run_by_hand(p, t);
        return;
    }
    verdict v = verdict_of(p, path);
    if (strcmp(p->needs, "stretch") == 0) {
        char more[REASON_LENGTH + 16];
        snprintf(more, sizeof more, "%s %s", v.outcome == PASSED ? "met" : "not met:", v.why);
        print_line(p, "stretch", v.worst, more);
        t->stretch++;
        t->stretch_met += v.outcome == PASSED;
        return;
    }
    print_line(p, words[v.outcome], v.outcome == UNSUPPORTED ? -1 : v.worst, v.why);
    t->passed += v.outcome == PASSED;
    t->unsupported += v.outcome == UNSUPPORTED;
    t->failed += v.outcome == FAILED;
    if (v.outcome == PASSED && v.worst > t->worst) {
        t->worst = v.worst;
        snprintf(t->worst_of, sizeof t->worst_of, " (%s %s)", p->id, v.worst_of);
    }
}

/* False if the file is not of the format. */
static bool run_file(const char *file, const char *path, tally *t)
{
    json_error_t error;
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &error), *cases = json_object_get(root, "cases"), *json;
    bool fine = json_is_array(cases);
    if (!fine)
        fprintf(stderr, "%s:%d: %s\n", file, root ? 0 : error.line, root ? "there is no array of cases" : error.text);
    size_t i;
    json_array_foreach(cases, i, json)
    {
        part p;
        char why[REASON_LENGTH];
        bool read = read_part(&p, json, why);
        if (read)
            run_one(&p, path, t);
        else
            fprintf(stderr, "%s: %s\n", file, why);
        fine = fine && read;
        free_part(&p);
    }
    json_decref(root);
    return fine;
}

static bool number_is_right(const char *path, int unsupported)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(path, expected[i].path) == 0 && unsupported != expected[i].unsupported) {
            printf("unsupported parts: %d, known: %d. %s\n", unsupported, expected[i].unsupported,
                   unsupported < expected[i].unsupported ? "Fewer: write the new number into test_cases.c."
                                                         : "More: something has stopped to work.");
            return false;
        }
    return true;
}

int main(int argc, char **argv)
{
    const char *path = "composed";
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        bool help = strcmp(argv[first], "--help") == 0;
        if (!help && strcmp(argv[first], "--path") == 0 && first + 1 < argc)
            path = argv[++first];
        else {
            fputs(usage, help ? stdout : stderr);
            return help ? 0 : EXIT_BAD_USE;
        }
    }
    if (strcmp(path, "composed") != 0 && strcmp(path, "fused") != 0 && strcmp(path, "both") != 0) {
        fprintf(stderr, "--path %s: composed, fused or both\n", path);
        return EXIT_BAD_USE;
    }
    if (lab_set_allocator(&(lab_allocator){allocate, release, NULL}) != LAB_OK)
        return EXIT_BAD_USE;
    tally t = {0};
    bool fine = true;
    if (first == argc)
        fine = run_file(CASES_FILE, path, &t);
    for (int i = first; i < argc; i++)
        fine = run_file(argv[i], path, &t) && fine;
    printf(
        "\n%d parts (%s): %d passed, %d failed, %d unsupported, %d stretch (%d met), %d by hand; worst error %.2g of "
        "its tolerance%s\n",
        t.parts, path, t.passed, t.failed, t.unsupported, t.stretch, t.stretch_met, t.by_hand, t.worst, t.worst_of);
    if (!fine)
        return EXIT_BAD_USE;
    return t.failed > 0 || (first == argc && !number_is_right(path, t.unsupported));
}
