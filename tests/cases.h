/* cases.h - cases from outside: the parts of a file such as tests/cases/open.json, and one run of a part.
 *
 * A part names an op, gives its inputs and says what must come out. test_cases.c finds the op's handler and runs it in
 * every precision, path and convention that the part asks for; each of these is a `run`. The handler calls the library
 * and hands its results over by name; gradients and comparisons are the same for all ops.
 */
#ifndef TESTS_CASES_H
#define TESTS_CASES_H

#include <jansson.h>
#include <llmlab.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MOST_ARRAYS = 16, MOST_RESULTS = 48, REASON_LENGTH = 512 };

/* ---- The file (cases_json.c) ------------------------------------------------------------------------------------- */

typedef enum view_kind { VIEW_NONE, VIEW_PERM, VIEW_SLICE, VIEW_EXPAND } view_kind;

/* An array as it lies in memory, and the view of it that the library is given. */
typedef struct array {
    lab_dtype dtype;
    bool bytes;    /* a file's: one integer a byte */
    bool in_words; /* said in words, not given */
    int rank;
    int64_t shape[LAB_MAX_RANK], count;
    double *numbers;   /* of floats; of bools, 0 or 1 */
    int64_t *integers; /* of int64 and bytes */
    view_kind view;
    int view_rank;
    int64_t view_first[LAB_MAX_RANK]; /* perm: axes; slice: starts; expand: sizes */
    int64_t view_stop[LAB_MAX_RANK];  /* slice: stops */
} array;

typedef struct part {
    const json_t *json;
    const char *id, *op, *needs, *note;
    lab_dtype dtype; /* of the inputs that are floats */
    int inputs;
    const char *name[MOST_ARRAYS];
    array input[MOST_ARRAYS];
} part;

/* False, with a sentence in `why`, where the text is not of the format. free_part is called either way. */
bool read_part(part *p, const json_t *json, char why[REASON_LENGTH]);
void free_part(part *p);

bool read_array(array *a, const json_t *json, char why[REASON_LENGTH]);
void free_array(array *a);
/* A number, or one of the words for those that are not finite. */
bool read_number(const json_t *json, double *number);

/* ---- What was found (cases_compare.c) ---------------------------------------------------------------------------- */

typedef enum outcome { PASSED, UNSUPPORTED, FAILED } outcome; /* in order of weight */

typedef struct verdict {
    outcome outcome;
    double worst; /* |got - want| in units of what is allowed */
    char worst_of[64];
    char why[REASON_LENGTH];
} verdict;

typedef struct tolerance {
    bool given;
    double rtol, atol;
} tolerance;

typedef struct result {
    const char *name;
    lab_tensor *tensor; /* NULL: this path does not offer it */
} result;

/* One call of the op, and everything about it. */
typedef struct run {
    const part *part;
    lab_graph *g;
    lab_dtype dtype;
    lab_path path;
    const char *convention;                              /* of those that the part lists; NULL: none */
    tolerance instead;                                   /* of the tolerances of the expectation */
    int threads, copies;                                 /* copies > 1: inputs are repeated and begin at an odd place */
    bool mended;                                         /* indices are 0, whatever the part says */
    lab_tensor *leaf[MOST_ARRAYS], *tensor[MOST_ARRAYS]; /* of the inputs: what lies in memory; the view */
    int results;
    result result[MOST_RESULTS];    /* the first one is differentiated */
    char gradient[MOST_ARRAYS][32]; /* names of gradients */
    lab_attention_opts attention;   /* sdpa's and mha's */
    verdict *verdict;
} run;

/* The verdict becomes the worse of what it is and this, with a sentence. Always false, for `return fail(...)`. */
__attribute__((format(printf, 2, 3))) bool fail(run *r, const char *format, ...);
__attribute__((format(printf, 2, 3))) bool cannot(run *r, const char *format, ...);

/* Compares everything that the expectation names. */
bool compare_all(run *r, const json_t *expectation);
/* |got - want| <= atol + rtol |want|; what is not finite must be the same. `of` is for the sentence. */
bool compare_value(run *r, const char *of, int64_t at, double got, double want, tolerance allowed);
/* Those of the expectation, or what replaces them in this run. */
tolerance tolerance_of(const run *r, const json_t *expected);
/* Whether the graph's message names what the part says is wrong. */
bool names_the_thing(const run *r, const char *message, const char *sentence);

/* ---- A run (cases_run.c) ----------------------------------------------------------------------------------------- */

/* The input of that name as the library gets it, NULL if there is none. */
lab_tensor *input(run *r, const char *name);
const array *input_array(const run *r, const char *name);
/* Hands a result over. */
void give(run *r, const char *name, lab_tensor *t);
/* The result of that name, gradients ("dq") included; NULL if there is none. */
lab_tensor *result_named(const run *r, const char *name);

double parameter(const run *r, const char *name, double otherwise);
const char *parameter_text(const run *r, const char *name, const char *otherwise);

/* The elements in row-major order, freed by the caller; NULL if out of memory. */
double *elements(const lab_tensor *t);

/* ---- Ops --------------------------------------------------------------------------------------------------------- */

typedef struct op_entry {
    const char *op;
    void (*call)(run *r);
    const char *parameters, *inputs; /* that the handler knows; another one makes a part unsupported */
    bool (*check)(run *r);           /* of what the numbers alone don't show; may be NULL */
    bool paths;                      /* a composed and a fused form */
    bool elementwise;                /* run once more on repeated inputs */
    bool indices;                    /* after a refusal the call is made again with legal indices */
} op_entry;

/* The handler, NULL where the library has no such op. */
const op_entry *op_named(const char *op);

void call_sdpa(run *r), call_mha(run *r);
bool check_sdpa(run *r);
void call_layer_norm(run *r), call_rms_norm(run *r), call_rope(run *r), call_cross_entropy(run *r), call_linear(run *r),
    call_swiglu(run *r), call_embedding(run *r);
void call_load_safetensors(run *r);
void call_adamw(run *r), call_clip_grad_norm(run *r);
bool check_clip_grad_norm(run *r);
void call_unary(run *r), call_binary(run *r), call_gelu(run *r), call_along_axis(run *r), call_reduction(run *r);

/* What single notes demand beyond their part's numbers (cases_notes.c). */
bool check_note(run *r);
/* Whether the library has this convention: 1 if it can be asked for or is the documented one, 0 if not, -1: unknown. */
int offers_convention(const char *convention);

/* The part in every precision, convention and number of threads, on one path. */
void run_part(const part *p, const op_entry *entry, lab_path path, verdict *v);

#endif
