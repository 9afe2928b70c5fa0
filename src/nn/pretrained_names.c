/* pretrained_names.c - what transformers calls our parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn_impl.h"
#include "pretrained_impl.h"

typedef struct pair {
    const char *ours, *theirs;
    bool transposed;
    int part, parts;
} pair;

/* ---- gpt2: Conv1D has its weights [in, out], and c_attn holds q, k, v one behind the other --------------------------- */

static const pair gpt2_model[] = {{"token.weight", "wte.weight", false, 0, 1},
                                  {"position.weight", "wpe.weight", false, 0, 1},
                                  {"norm.gain", "ln_f.weight", false, 0, 1},
                                  {"norm.shift", "ln_f.bias", false, 0, 1},
                                  {NULL, NULL, false, 0, 0}};

static const pair gpt2_block[] = {{"norm1.gain", "ln_1.weight", false, 0, 1},
                                  {"norm1.shift", "ln_1.bias", false, 0, 1},
                                  {"attn.q.weight", "attn.c_attn.weight", true, 0, 3},
                                  {"attn.q.bias", "attn.c_attn.bias", false, 0, 3},
                                  {"attn.k.weight", "attn.c_attn.weight", true, 1, 3},
                                  {"attn.k.bias", "attn.c_attn.bias", false, 1, 3},
                                  {"attn.v.weight", "attn.c_attn.weight", true, 2, 3},
                                  {"attn.v.bias", "attn.c_attn.bias", false, 2, 3},
                                  {"attn.out.weight", "attn.c_proj.weight", true, 0, 1},
                                  {"attn.out.bias", "attn.c_proj.bias", false, 0, 1},
                                  {"norm2.gain", "ln_2.weight", false, 0, 1},
                                  {"norm2.shift", "ln_2.bias", false, 0, 1},
                                  {"mlp.up.weight", "mlp.c_fc.weight", true, 0, 1},
                                  {"mlp.up.bias", "mlp.c_fc.bias", false, 0, 1},
                                  {"mlp.down.weight", "mlp.c_proj.weight", true, 0, 1},
                                  {"mlp.down.bias", "mlp.c_proj.bias", false, 0, 1},
                                  {NULL, NULL, false, 0, 0}};

/* ---- llama ----------------------------------------------------------------------------------------------------------- */

static const pair llama_model[] = {{"token.weight", "model.embed_tokens.weight", false, 0, 1},
                                   {"norm.gain", "model.norm.weight", false, 0, 1},
                                   {NULL, NULL, false, 0, 0}};

static const pair llama_block[] = {{"norm1.gain", "input_layernorm.weight", false, 0, 1},
                                   {"attn.q.weight", "self_attn.q_proj.weight", false, 0, 1},
                                   {"attn.k.weight", "self_attn.k_proj.weight", false, 0, 1},
                                   {"attn.v.weight", "self_attn.v_proj.weight", false, 0, 1},
                                   {"attn.out.weight", "self_attn.o_proj.weight", false, 0, 1},
                                   {"norm2.gain", "post_attention_layernorm.weight", false, 0, 1},
                                   {"mlp.up.weight", "mlp.up_proj.weight", false, 0, 1},
                                   {"mlp.gate.weight", "mlp.gate_proj.weight", false, 0, 1},
                                   {"mlp.down.weight", "mlp.down_proj.weight", false, 0, 1},
                                   {NULL, NULL, false, 0, 0}};

/* ---- Both ------------------------------------------------------------------------------------------------------------ */

static bool find(their_place *out, const pair *table, const char *before, const char *ours)
{
    for (; table->ours; table++)
        if (strcmp(table->ours, ours) == 0) {
            int length = snprintf(out->name, sizeof out->name, "%s%s", before, table->theirs);
            out->transposed = table->transposed;
            out->part = table->part;
            out->parts = table->parts;
            return length > 0 && length < (int)sizeof out->name;
        }
    return false;
}

bool lab__their_place(their_place *out, layout of, const char *prefix, const char *our_name)
{
    char before[64];
    const bool gpt2 = of == LAYOUT_GPT2;
    if (strcmp(our_name, "head.weight") == 0)
        return find(out, (const pair[]){{"head.weight", "lm_head.weight", false, 0, 1}, {0}}, "", our_name);
    if (strncmp(our_name, "block.", 6) != 0)
        return find(out, gpt2 ? gpt2_model : llama_model, gpt2 ? prefix : "", our_name);
    char *rest;
    const long block = strtol(our_name + 6, &rest, 10);
    snprintf(before, sizeof before, gpt2 ? "%sh.%ld." : "%smodel.layers.%ld.", gpt2 ? prefix : "", block);
    return *rest == '.' && find(out, gpt2 ? gpt2_block : llama_block, before, rest + 1);
}

char *lab__path_in(const char *folder, const char *name)
{
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = lab__allocate(bytes);
    if (path)
        snprintf(path, bytes, "%s/%s", folder, name);
    else
        (void)lab__fail(LAB_ERR_MEMORY, "no memory for the name of %s", name);
    return path;
}

void lab__free_path(char *path)
{
    if (path)
        lab__release(path, strlen(path) + 1);
}
