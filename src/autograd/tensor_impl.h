/* tensor_impl.h - what a tensor is made of, for the engine and its ops.
 *
 *     storage    bytes, a version count, and who frees them
 *     tensor     dtype, sizes, strides and a pointer into a storage
 *
 * A leaf and its gradient are counted atomically and freed at their last use. A graph's tensors live in the graph's
 * memory. A foreign tensor (a leaf, a gradient, a parent graph's tensor) is seen by a graph through a proxy: a header
 * of the graph's own, so that graphs in several threads never write into the tensors they share.
 */
#ifndef LAB_AUTOGRAD_TENSOR_IMPL_H
#define LAB_AUTOGRAD_TENSOR_IMPL_H

#include <stdatomic.h>

#include "llmlab/tensor.h"

struct lab_graph;
struct node;
struct slot;

typedef enum tensor_kind {
    TENSOR_LEAF,     /* created by the user */
    TENSOR_GRADIENT, /* a leaf's gradient */
    TENSOR_RESULT,   /* computed on a graph */
    TENSOR_PROXY,    /* a graph's header for a foreign tensor */
    TENSOR_TEMPORARY /* made while a backward runs, gone at its last use */
} tensor_kind;

typedef struct storage {
    char *data;
    size_t bytes;
    atomic_uint_fast64_t version;
    atomic_int references;
    bool block; /* lies in a block of its graph's pool, behind this header */
    void (*release)(void *data, void *context);
    void *context;
} storage;

struct lab_tensor {
    lab_dtype dtype;
    int rank;
    tensor_kind kind;
    bool requires_grad; /* leaves */
    bool overlapping;   /* two elements may share a place */
    bool gradient_present;
    bool kept;             /* temporaries: survives the sweep */
    atomic_int references; /* leaves and gradients */
    int64_t shape[LAB_MAX_RANK], strides[LAB_MAX_RANK];
    int64_t numel;
    char *data;
    storage *storage;
    struct lab_graph *graph;    /* NULL: a leaf or a gradient */
    struct node *node;          /* what computed it on a recording graph */
    struct slot *slot;          /* its gradient in the backward that runs */
    lab_tensor *gradient;       /* a leaf's, absent or present */
    lab_tensor *origin;         /* of a proxy: the foreign tensor */
    lab_tensor *next_temporary; /* list of the graph */
};

/* A header that the caller can use for any tensor over existing memory. Row-major if strides is NULL. */
void lab__tensor_describe(lab_tensor *t, lab_dtype dtype, int rank, const int64_t *shape, const int64_t *strides);

/* Bytes of a row-major tensor; false if the product overflows size_t or int64_t, or a size is negative. */
bool lab__shape_bytes(lab_dtype dtype, int rank, const int64_t *shape, int64_t *numel, size_t *bytes);

bool lab__is_float(lab_dtype dtype);
bool lab__is_contiguous(const lab_tensor *t);
/* Where element `index`, counted row-major, lies: in elements from the first. */
int64_t lab__element_place(const lab_tensor *t, int64_t index);
bool lab__same_shape(const lab_tensor *a, const lab_tensor *b);
/* Axis counted from the front, or -1 if there is none such. */
int lab__axis(int rank, int axis);

/* "[2, 3]"; the text stays in a small ring of buffers of the calling thread. */
const char *lab__shape_text(int rank, const int64_t *shape);
const char *lab__tensor_text(const lab_tensor *t); /* "f32 [2, 3]" */

/* Keeps the sentence for lab_last_message and returns status. */
lab_status lab__fail(lab_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lab__set_last_message(const char *sentence);

void lab__tensor_retain(lab_tensor *t); /* leaves and gradients */
void lab__tensor_drop(lab_tensor *t);
/* The gradient of a leaf, made (absent, row-major) if there is none yet; NULL when out of memory. */
lab_tensor *lab__leaf_gradient(lab_tensor *leaf);

/* dst = src, or dst += src: equal shapes and dtypes, any strides. Never fails, allocates nothing. */
void lab__tensor_copy(lab_tensor *dst, const lab_tensor *src);
void lab__tensor_accumulate(lab_tensor *dst, const lab_tensor *src);
void lab__tensor_fill(lab_tensor *dst, double value);

#endif
