/* pretrained_impl.h - what reading and writing of others' layouts share: their names for our parameters. */
#ifndef LAB_NN_PRETRAINED_IMPL_H
#define LAB_NN_PRETRAINED_IMPL_H

#include <jansson.h>
#include <stdbool.h>

#include "llmlab/pretrained.h"

typedef enum layout { LAYOUT_GPT2, LAYOUT_LLAMA } layout;

/* Where a parameter is: in a tensor of this name, [in, out] instead of [out, in], its outputs being part `part` of
 * `parts` of the tensor's. */
typedef struct their_place {
    char name[160];
    bool transposed;
    int part, parts;
} their_place;

/* False for a name that no model has. `prefix` is what a gpt2's names begin with: "transformer." or nothing. */
bool lab__their_place(their_place *out, layout of, const char *prefix, const char *our_name);

/* config.json in both directions. A new object, or NULL without memory. */
lab_status lab__read_config(lab_gpt_config *out, layout *of, const char *path);
lab_status lab__layout_for(layout *out, const lab_gpt_config *config);
json_t *lab__config_json(const lab_gpt_config *config, layout of);

/* "folder/name", for lab__release with its length + 1; NULL without memory, and then the failure is told. */
char *lab__path_in(const char *folder, const char *name);
void lab__free_path(char *path);

#endif
