/* scale_study_gpt_draw.c - gpt's picture: above, the loss over the rate; below, how sharply each layer looks along
 * training at the best rate. A column for each optimiser and head size.
 */
#include "scale_study_gpt.h"

#include <math.h>

static const char *color_of(const study *s, int law)
{
    return study_colors[s->settings.laws.values[law]];
}

static const char *law_name(const study *s, int law)
{
    return study_law_words[s->settings.laws.values[law]];
}

/* Losses beyond this are drawn at the panel's upper edge, and so is what diverges. */
static const double most_loss = 4.2, least_loss = 1.8;

static double drawn(double loss)
{
    return loss < most_loss ? loss : most_loss;
}

static void put_losses(FILE *script, const study *s, gpt_place at)
{
    const study_settings *of = &s->settings;
    for (at.law = 0; at.law < of->laws.count; at.law++) {
        fprintf(script, "$loss%d << END\n", at.law);
        for (at.rate = 0; at.rate < of->rates.count; at.rate++) {
            const double loss = gpt_mean(s, at, GPT_LOSS);
            if (!isnan(loss))
                fprintf(script, "%g %.4f\n", gpt_rate(of, at), drawn(loss));
        }
        fprintf(script, "1 NaN\nEND\n");
    }
}

static void draw_losses(FILE *script, const study *s, gpt_place at)
{
    const study_settings *of = &s->settings;
    const gpt_place first = at;
    const double bar = gpt_ends_of(s, at).all.bar;
    put_losses(script, s, at);
    at.rate = of->rates.count - 1;
    fprintf(script,
            "set title '%s, d = %lld'\nset logscale x\nset format x '%%g'\nset xrange [%g:%g]\nset yrange [%g:%g]\n"
            "set xlabel 'learning rate'\nset ylabel 'loss on text held back'\nset key top left samplen 1\nplot",
            study_optimizer_words[of->optimizers.values[at.optimizer]], (long long)of->d.values[at.d],
            gpt_rate(of, first) / 1.5, gpt_rate(of, at) * 1.5, least_loss, most_loss + 0.1);
    for (int law = 0; law < of->laws.count; law++)
        fprintf(script,
                " $loss%d using 1:2 with linespoints linewidth 2 pointtype 7 pointsize 0.6 linecolor rgb '%s' "
                "title '%s',",
                law, color_of(s, law), law_name(s, law));
    if (isfinite(bar))
        fprintf(script, " %g with lines dashtype 2 linecolor rgb '#808080' title 'best + %g'\n", bar, gpt_margin);
    else
        fprintf(script, " NaN notitle\n");
}

/* A line for each law and layer, thicker from layer to layer. */
static void draw_along(FILE *script, const study *s, gpt_place at, gpt_curve curve, const char *words)
{
    const study_settings *of = &s->settings;
    const int layers = (int)of->layers.values[0];
    for (at.law = 0; at.law < of->laws.count; at.law++) {
        const int best = gpt_ends_of(s, at).best;
        at.rate = best < 0 ? 0 : best;
        fprintf(script, "$along%d << END\n", at.law);
        for (int moment = 0; moment < GPT_MOMENTS; moment++) {
            fprintf(script, "%lld", (long long)gpt_moment_step(of, moment));
            for (int layer = 0; layer < layers; layer++) {
                const double value = gpt_mean(s, at, gpt_value(of, curve, layer, moment));
                if (isnan(value))
                    fprintf(script, " NaN");
                else
                    fprintf(script, " %.4f", value);
            }
            fputc('\n', script);
        }
        fprintf(script, "END\n");
    }
    fprintf(script,
            "set title '%s, d = %lld'\nunset logscale\nset format x '%%g'\nset xrange [0:%lld]\nset yrange [0:1.02]\n"
            "set xlabel 'step'\nset ylabel '%s'\nunset key\nplot",
            study_optimizer_words[of->optimizers.values[at.optimizer]], (long long)of->d.values[at.d],
            (long long)of->steps.values[0], words);
    for (int law = 0; law < of->laws.count; law++)
        for (int layer = 0; layer < layers; layer++)
            fprintf(script, "%s $along%d using 1:%d with lines linewidth %g linecolor rgb '%s'",
                    (law + layer) ? "," : "", law, layer + 2, 0.8 + 3.0 * layer / layers, color_of(s, law));
    fputc('\n', script);
}

void gpt_draw(FILE *script, const study *s)
{
    const study_settings *of = &s->settings;
    fprintf(script,
            "set samples 2\nset grid\nset multiplot layout 3,%d title 'Loss over learning rate (above %g, or diverged: "
            "at the edge), and "
            "at the best rate largest weight and entropy, thin: first layer, thick: last (%lld seed%s)'\n",
            of->optimizers.count * of->d.count, most_loss, (long long)of->seeds.values[0],
            of->seeds.values[0] == 1 ? "" : "s");
    for (int row = 0; row < 3; row++)
        for (int o = 0; o < of->optimizers.count; o++)
            for (int d = 0; d < of->d.count; d++) {
                const gpt_place at = {o, d, 0, 0};
                if (row == 0)
                    draw_losses(script, s, at);
                else if (row == 1)
                    draw_along(script, s, at, GPT_LARGEST_WEIGHT, "largest weight");
                else
                    draw_along(script, s, at, GPT_ENTROPY_RATIO, "entropy / largest possible");
            }
    fprintf(script, "unset multiplot\n");
}
