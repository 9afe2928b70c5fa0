/* journal.c - log.jsonl, loss.svg, and the bar. */
#include "journal.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- log.jsonl ------------------------------------------------------------------------------------------------------- */

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* A layer's rows: the largest weight and the entropy, on average over its heads. */
static json_t *layers_of(const entry *e)
{
    json_t *layers = e->attention ? json_array() : json_null();
    for (int64_t l = 0; e->attention && l < e->layers; l++) {
        double largest = 0, entropy = 0, saturated = 0;
        for (int64_t h = 0; h < e->heads; h++) {
            const lab_attention_stats *s = &e->attention[l * e->heads + h];
            largest += s->p_max.mean / (double)e->heads;
            entropy += s->entropy.mean / (double)e->heads;
            saturated += s->saturated_share / (double)e->heads;
        }
        json_array_append_new(layers, json_pack("{s:o, s:o, s:o}", "largest_weight", number(largest), "entropy",
                                                number(entropy), "saturated", number(saturated)));
    }
    return layers;
}

bool journal_append(const char *path, const entry *e)
{
    json_t *json = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "step", (json_int_t)e->step, "train_loss",
                             number(e->train_loss), "val_loss", number(e->val_loss), "lr", number(e->rate), "grad_norm",
                             number(e->grad_norm), "tokens_per_s", number(e->tokens_per_s), "attention", layers_of(e));
    FILE *f = json ? fopen(path, "ab") : NULL;
    const long end = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    bool fine = f && json_dumpf(json, f, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', f) != EOF;
    fine = f && fclose(f) == 0 && fine;
    json_decref(json);
    if (!fine && end >= 0) { /* half a line would spoil the next one */
        const int why = errno, cut = truncate(path, end);
        errno = cut == 0 ? why : errno;
    }
    return fine;
}

/* ---- loss.svg -------------------------------------------------------------------------------------------------------- */

enum { MOST_POINTS = 100000, LEFT = 60, TOP = 20, WIDE = 680, HIGH = 380 };

typedef struct curve {
    double *step, *loss;
    int64_t count;
} curve;

typedef struct frame {
    double least, largest, last;
} frame;

static void add_point(curve *c, frame *f, double step, const json_t *loss)
{
    if (!json_is_number(loss) || c->count == MOST_POINTS)
        return;
    const double y = json_number_value(loss);
    c->step[c->count] = step;
    c->loss[c->count++] = y;
    f->least = fmin(f->least, y);
    f->largest = fmax(f->largest, y);
    f->last = fmax(f->last, step);
}

static void read_curves(FILE *log, curve *train, curve *val, frame *f)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, log) > 0) {
        json_error_t error;
        json_t *json = json_loads(line, 0, &error);
        const double step = json_number_value(json_object_get(json, "step"));
        add_point(train, f, step, json_object_get(json, "train_loss"));
        add_point(val, f, step, json_object_get(json, "val_loss"));
        json_decref(json);
    }
    free(line);
}

static void draw_curve(FILE *svg, const curve *c, const frame *f, const char *colour, double wide)
{
    fprintf(svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" points=\"", colour, wide);
    for (int64_t i = 0; i < c->count; i++)
        fprintf(svg, "%.1f,%.1f ", LEFT + WIDE * c->step[i] / f->last,
                TOP + HIGH * (f->largest - c->loss[i]) / (f->largest - f->least));
    fprintf(svg, "\"/>\n");
}

static void draw(FILE *svg, const curve *train, const curve *val, frame f)
{
    if (!(f.largest > f.least))
        f.largest = f.least + 1;
    f.last = f.last > 0 ? f.last : 1;
    fprintf(svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            LEFT + WIDE + 20, TOP + HIGH + 50);
    for (int i = 0; i <= 5; i++) {
        const double y = TOP + HIGH * i / 5.0, x = LEFT + WIDE * i / 5.0;
        fprintf(svg,
                "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n",
                LEFT, y, LEFT + WIDE, LEFT - 6, y + 4, f.largest - (f.largest - f.least) * i / 5);
        fprintf(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x, TOP + HIGH + 18,
                f.last * i / 5);
    }
    draw_curve(svg, train, &f, "#88aadd", 1);
    draw_curve(svg, val, &f, "#cc3322", 2);
    fprintf(svg,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">steps; loss in training (thin), in validation (thick)"
            "</text>\n</svg>\n",
            LEFT + WIDE / 2, TOP + HIGH + 38);
}

bool journal_plot(const char *log_path, const char *svg_path)
{
    double *memory = malloc(4 * MOST_POINTS * sizeof *memory);
    FILE *log = memory ? fopen(log_path, "rb") : NULL, *svg = log ? fopen(svg_path, "wb") : NULL;
    if (svg) {
        curve train = {memory, memory + MOST_POINTS, 0}, val = {memory + 2 * MOST_POINTS, memory + 3 * MOST_POINTS, 0};
        frame f = {.least = INFINITY, .largest = -INFINITY};
        read_curves(log, &train, &val, &f);
        if (train.count + val.count > 0)
            draw(svg, &train, &val, f);
    }
    if (log)
        fclose(log);
    free(memory);
    return svg && fclose(svg) == 0;
}

/* ---- The bar --------------------------------------------------------------------------------------------------------- */

enum { BAR_WIDTH = 24 };

void bar_show(bar *b, const entry *e)
{
    const double t = now(), done = (double)e->step / (double)b->steps;
    if (t - b->last < (b->terminal ? 0.1 : 10) && e->step < b->steps && b->shown)
        return;
    b->last = t;
    b->shown = true;
    const double left = (t - b->started) * (double)(b->steps - e->step) / (double)(e->step - b->first_step);
    const int full = (int)(done * BAR_WIDTH);
    fprintf(stderr, "%s%.*s%.*s] %lld/%lld  loss %.4f  %.0f tokens/s  %.0f %% of FMA peak  %lld:%02lld left%s",
            b->terminal ? "\r[" : "[", full, "########################", BAR_WIDTH - full, "........................",
            (long long)e->step, (long long)b->steps, e->train_loss, e->tokens_per_s,
            100 * e->tokens_per_s * b->flops_per_token / b->peak, (long long)left / 60, (long long)left % 60,
            b->terminal ? "\033[K" : "\n");
    fflush(stderr);
}

void bar_end(bar *b)
{
    if (b->terminal && b->shown)
        fputc('\n', stderr);
    b->shown = false;
}
