/* train_block.c - one transformer block learns to copy: a sequence is said twice, and at every place of the second half
 * it must say which token comes next. That takes a head that looks back by a fixed distance: HALF - 1 places. */
#include <llmlab.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 32, HALF = 8, T = 2 * HALF, VOCABULARY = 10, WIDTH = 32, STEPS = 200 };

typedef struct model {
    lab_tensor *embedding; /* [VOCABULARY, WIDTH], the head's weight as well */
    lab_tensor *positions; /* [T, WIDTH] */
    lab_block block;
} model;

static lab_status model_visit(model *m, lab_visit_fn fn, void *ctx)
{
    lab_status status = fn("embedding", &m->embedding, ctx);
    if (status == LAB_OK)
        status = fn("positions", &m->positions, ctx);
    return status == LAB_OK ? lab_block_visit(&m->block, "block", fn, ctx) : status;
}

static lab_status model_init(model *m)
{
    lab_status status = lab_tensor_create(&m->embedding, LAB_F32, 2, (int64_t[]){VOCABULARY, WIDTH});
    if (status == LAB_OK)
        status = lab_tensor_create(&m->positions, LAB_F32, 2, (int64_t[]){T, WIDTH});
    if (status == LAB_OK)
        status = lab_init_normal(m->embedding, 0.2, 1, 0); /* seed 1, stream 0 */
    if (status == LAB_OK)
        status = lab_init_normal(m->positions, 0.2, 1, 1);
    if (status == LAB_OK)
        status = lab_tensor_require_grad(m->embedding, true);
    if (status == LAB_OK)
        status = lab_tensor_require_grad(m->positions, true);
    lab_block_config config = {.width = WIDTH, .heads = 2, .bias = true};
    return status == LAB_OK ? lab_block_init(&m->block, &config, LAB_F32, 2) : status;
}

/* Random tokens [BATCH, HALF], twice; the targets are the tokens one place on, asked for in the second half only. */
static void make_batch(lab_graph *g, int step, lab_tensor **tokens, lab_tensor **targets)
{
    lab_tensor *draw = lab_rand(g, LAB_F32, 2, (int64_t[]){BATCH, HALF}, 1000 + (uint64_t)step);
    lab_tensor *half = lab_cast(g, lab_mul_scalar(g, draw, VOCABULARY), LAB_I64);
    lab_tensor *unasked = lab_full(g, LAB_I64, 2, (int64_t[]){BATCH, HALF}, -100);
    lab_tensor *next =
        lab_concat(g, 2, (lab_tensor *[]){lab_slice(g, half, 1, 1, HALF, 1), lab_slice(g, half, 1, 0, 1, 1)}, 1);
    *tokens = lab_concat(g, 2, (lab_tensor *[]){half, half}, 1);
    *targets = lab_concat(g, 2, (lab_tensor *[]){unasked, next}, 1);
}

/* Tokens [BATCH, T] -> how likely each token is to come next, as logits [BATCH, T, VOCABULARY]. */
static lab_tensor *model_apply(lab_graph *g, const model *m, lab_tensor *tokens)
{
    lab_tensor *x = lab_add(g, lab_gather_rows(g, m->embedding, tokens), m->positions);
    x = lab_block_apply(g, &m->block, x, NULL, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
    return lab_matmul(g, lab_layer_norm(g, x, NULL, NULL, 1e-5), lab_transpose(g, m->embedding, 0, 1));
}

static lab_tensor *model_loss(lab_graph *g, const model *m, int step)
{
    lab_tensor *tokens, *targets;
    make_batch(g, step, &tokens, &targets);
    lab_tensor *logits = model_apply(g, m, tokens);
    return lab_cross_entropy(g, logits, targets, &(lab_cross_entropy_opts){.ignore_index = -100});
}

/* What the model says after each token of a sequence that it has not seen. In the first half it cannot know. */
static lab_status show(const model *m)
{
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true}); /* no tape */
    lab_tensor *tokens, *targets;
    make_batch(g, STEPS + 1, &tokens, &targets);
    lab_tensor *said = lab_argmax(g, model_apply(g, m, tokens), -1, false);
    lab_status status = lab_graph_status(g);
    for (int i = 0; i < T && status == LAB_OK; i++)
        printf("%s%lld",
               i == 0      ? "heard: "
               : i == HALF ? " | "
                           : " ",
               (long long)((int64_t *)lab_tensor_data(tokens))[i]);
    for (int i = 0; i < T && status == LAB_OK; i++)
        printf("%s%lld",
               i == 0      ? "\nsaid:  "
               : i == HALF ? " | "
                           : " ",
               (long long)((int64_t *)lab_tensor_data(said))[i]);
    printf("\n");
    lab_graph_destroy(&g);
    return status;
}

int main(void)
{
    model m = {0};
    lab_graph *g = lab_graph_create(NULL);
    lab_status status = model_init(&m);
    int64_t parameters = 0;
    if (status == LAB_OK)
        status = model_visit(&m, lab_count_parameters, &parameters);
    if (status == LAB_OK)
        printf("%lld parameters; guessing costs %.3f\n", (long long)parameters, log(VOCABULARY));
    float last = INFINITY;
    for (int step = 0; step <= STEPS && status == LAB_OK; step++) {
        lab_graph_reset(g); /* forgets the last step, keeps the memory */
        lab_tensor *loss = model_loss(g, &m, step);
        status = lab_backward(g, loss); /* the graph's status: any op's failure, too */
        if (status == LAB_OK)
            last = *(float *)lab_tensor_data(loss);
        if (status == LAB_OK)
            status = model_visit(&m, lab_sgd_step, &(lab_sgd){.rate = 0.2});
        if (status == LAB_OK)
            status = model_visit(&m, lab_clear_grads, NULL);
        if (status == LAB_OK && step % 50 == 0)
            printf("step %3d: loss %.4f\n", step, last);
    }
    if (status == LAB_OK)
        status = show(&m);
    if (status != LAB_OK)
        fprintf(stderr, "%s\n", lab_last_message());
    lab_graph_destroy(&g);
    lab_block_free(&m.block);
    lab_tensor_destroy(&m.embedding);
    lab_tensor_destroy(&m.positions);
    return status != LAB_OK || !(last < 0.1f); /* a run that has not learned it has failed */
}
