/* SPDX-License-Identifier: MIT
 * llmlab/status.h - what functions answer, and the words that go with it.
 */

/** @file
 * The status of a call. The functions here never fail, allocate nothing, and may be called from any thread.
 */
#ifndef LLMLAB_STATUS_H
#define LLMLAB_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LAB_API     __attribute__((visibility("default")))
#define LAB_CHECKED __attribute__((warn_unused_result))
#else
#define LAB_API
#define LAB_CHECKED
#endif

/* X(name, number, meaning): the caller's faults first, then the environment's. */
#define LAB_STATUS_LIST(X)                                                                                             \
    X(LAB_OK, 0, "no error")                                                                                           \
    X(LAB_ERR_SHAPE, -1, "sizes that do not fit")                                                                      \
    X(LAB_ERR_DTYPE, -2, "a dtype that does not fit")                                                                  \
    X(LAB_ERR_RANGE, -3, "an axis, index, count or number out of range")                                               \
    X(LAB_ERR_ARGUMENT, -4, "an argument that is missing or makes no sense")                                           \
    X(LAB_ERR_STATE, -5, "a call that the object's state does not allow")                                              \
    X(LAB_ERR_UNSUPPORTED, -6, "something that does not work (yet)")                                                   \
    X(LAB_ERR_MEMORY, -101, "out of memory")                                                                           \
    X(LAB_ERR_IO, -102, "reading or writing failed")                                                                   \
    X(LAB_ERR_FORMAT, -103, "data that is not in the format expected")

/**
 * The status of a call: LAB_OK (0), the caller's fault (-1 ... -99), or the environment's (-101 ...).
 */
typedef enum lab_status {
#define LAB_STATUS_ENUM(name, number, meaning) name = number,
    LAB_STATUS_LIST(LAB_STATUS_ENUM)
#undef LAB_STATUS_ENUM
} lab_status;

/**
 * The name of a status, such as "LAB_ERR_SHAPE".
 *
 * @param status  any number
 * @return a static string, not to be freed; "unknown status" for a number that is none
 */
LAB_API const char *lab_status_name(lab_status status);

/**
 * The sentence that the calling thread's last failed function left behind.
 *
 * A graph's failure counts as well: lab_graph_message keeps it with the graph, this with the thread that met it.
 *
 * @return "" if none failed; never NULL; not to be freed. The text stays until the thread's next failure: what succeeds
 *         leaves it alone, so ask after a failure only.
 */
LAB_API const char *lab_last_message(void);

#ifdef __cplusplus
}
#endif
#endif
