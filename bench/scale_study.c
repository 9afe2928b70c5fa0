/* scale_study.c - why attention divides by sqrt(d), measured: subcommands, options, and the order of a run.
 *
 *     build/bench/scale_study saturation
 *     build/bench/scale_study learn --laws none,sqrt --d 16,64 --seeds 5 --json learn.json --plot learn.svg
 *     build/bench/scale_study learn --resume learn.json
 *
 * What is measured is in scale_study_NAME.c; docs/why-sqrt-d.md is what came out.
 */
#include "scale_study.h"

#include <stdlib.h>
#include <string.h>

static const study_command *const commands[] = {&study_saturation, &study_learn,      &study_optim,
                                                &study_mechanism,  &study_correlated, &study_gpt};
enum { COMMANDS = sizeof commands / sizeof *commands, MAX_WORDS = 64 };

static const char *const plot_endings[] = {".svg", ".png", NULL};

/* What no subcommand says otherwise. */
static const study_settings basics = {
    .seed = {1, {1}},
    .seeds = {1, {20}},
    .n = {1, {32}},
    .d = {6, {16, 32, 64, 128, 256, 512}},
    .laws = {4, {STUDY_NONE, STUDY_SQRT, STUDY_LINEAR, STUDY_CONTROL}},
    .optimizers = {1, {0}},
    .dtype = {1, {LAB_F32}},
    .rates = {11, {0.001, 0.00316228, 0.01, 0.0316228, 0.1, 0.316228, 1, 3.16228, 10, 31.6228, 100}},
    .refine = {1, {1.25}},
    .steps = {1, {500}},
    .layers = {1, {4}},
    .batch = {1, {6}},
};

static const char status_words[] = "Exit status: 0 done, 1 a file could not be written or memory was short, 2 a bad "
                                   "option, 130 interrupted.";

/* ---- Settings ---------------------------------------------------------------------------------------------------- */

static void fill_list(bench_list *list, const bench_list *otherwise)
{
    if (list->count == 0)
        *list = *otherwise;
}

static void fill_reals(bench_reals *reals, const bench_reals *otherwise)
{
    if (reals->count == 0)
        *reals = *otherwise;
}

static void fill(study_settings *settings, const study_settings *otherwise)
{
    fill_list(&settings->seed, &otherwise->seed);
    fill_list(&settings->seeds, &otherwise->seeds);
    fill_list(&settings->threads, &otherwise->threads);
    fill_list(&settings->n, &otherwise->n);
    fill_list(&settings->d, &otherwise->d);
    fill_list(&settings->laws, &otherwise->laws);
    fill_list(&settings->optimizers, &otherwise->optimizers);
    fill_list(&settings->dtype, &otherwise->dtype);
    fill_reals(&settings->rates, &otherwise->rates);
    fill_reals(&settings->refine, &otherwise->refine);
    fill_list(&settings->steps, &otherwise->steps);
    fill_list(&settings->layers, &otherwise->layers);
    fill_list(&settings->batch, &otherwise->batch);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void resolve(const study_command *command, study_settings *settings)
{
    const study_settings here = {.threads = {1, {lab_get_threads()}}};
    if (settings->quick)
        fill(settings, &command->quick);
    fill(settings, &command->usual);
    fill(settings, &basics);
    fill(settings, &here);
    qsort(settings->rates.values, (size_t)settings->rates.count, sizeof(double), ascending);
}

/* ---- The command line ---------------------------------------------------------------------------------------------- */

static int make_model_options(bench_option *options, study_settings *to)
{
    int n = 0;
    options[n++] = (bench_option){"--text", "FILE", "what the model is trained on, UTF-8; needed", .string = &to->text};
    options[n++] =
        (bench_option){"--steps", "N", "of the optimiser (default 500)", &to->steps, .least = 20, .most = 100000};
    options[n++] = (bench_option){"--layers", "N", "blocks (default 4)", &to->layers, .least = 1, .most = 16};
    options[n++] = (bench_option){"--batch", "N", "windows of a step (default 6)", &to->batch, .least = 1, .most = 256};
    return n;
}

/* The options of a subcommand, with where their values go. */
static int make_options(bench_option *options, study *s)
{
    const study_command *command = s->command;
    study_settings *to = &s->settings;
    const int64_t most_d = command->most_d ? command->most_d : 65536;
    int n = 0;
    options[n++] =
        (bench_option){"--seeds", "N", "how many independent repetitions", &to->seeds, .least = 1, .most = 10000};
    options[n++] = (bench_option){"--seed",  "N",        "what all random numbers start from (default 1)",
                                  &to->seed, .least = 0, .most = INT64_MAX};
    options[n++] = (bench_option){
        "--threads",  "N",        "runs side by side; results do not depend on it (default: all processors)",
        &to->threads, .least = 1, .most = 256};
    options[n++] = (bench_option){"--d", "LIST", "head sizes", &to->d, .many = true, .least = 1, .most = most_d};
    options[n++] =
        (bench_option){"--laws",  "LIST",       "none, sqrt, linear, control, softcap, qknorm, start, update",
                       &to->laws, .many = true, .words = study_law_words};
    if (command->takes & STUDY_TAKES_N)
        options[n++] = (bench_option){"--n", "N", "how many keys", &to->n, .least = 2, .most = 65536};
    if (command->takes & STUDY_TAKES_OPTIMIZERS)
        options[n++] = (bench_option){"--optimizers",  "LIST",       "sgd, momentum, rmsprop, adam, adamw, lion, sign",
                                      &to->optimizers, .many = true, .words = study_optimizer_words};
    if (command->takes & STUDY_TAKES_DTYPE)
        options[n++] =
            (bench_option){"--dtype", "TYPE", "f32 or f64 (default f32)", &to->dtype, .words = study_dtype_words};
    if (command->takes & STUDY_TAKES_RATES)
        options[n++] =
            (bench_option){"--rates", "LIST", "the grid of learning rates", .many = true, .reals = &to->rates};
    if (command->takes & STUDY_TAKES_REFINE)
        options[n++] = (bench_option){"--refine", "FACTOR", "how finely bisection finds both ends of the working rates",
                                      .reals = &to->refine, .above = 1};
    if (command->takes & STUDY_TAKES_MODEL)
        n += make_model_options(options + n, to);
    options[n++] = (bench_option){"--quick", "", "a small run: seconds", .flag = &to->quick};
    options[n++] =
        (bench_option){"--json", "FILE", "results for programs; - is stdout, and the table goes to stderr then",
                       .file = &s->json_path};
    options[n++] = (bench_option){"--plot", "FILE", "a picture, by gnuplot; FILE ends in .svg or .png",
                                  .file = &s->plot_path, .endings = plot_endings};
    options[n++] = (bench_option){"--resume", "FILE",
                                  "goes on with a run that was interrupted; FILE is what its --json wrote, and is\n"
                                  "written again where --json names no other",
                                  .file = &s->resume_path};
    return n;
}

static void parse(study *s, int argc, char **argv)
{
    bench_option options[24];
    char name[64], notes[4096];
    snprintf(name, sizeof name, "scale_study %s", s->command->name);
    snprintf(notes, sizeof notes, "%s\n%s", s->command->notes, status_words);
    const bench_program program = {.name = name,
                                   .summary = s->command->summary,
                                   .notes = notes,
                                   .options = options,
                                   .n_options = make_options(options, s)};
    bench_options_parse(&program, argc, argv);
}

static void print_help(void)
{
    printf("usage: scale_study COMMAND [OPTION]...\n\n"
           "Measures what dividing attention's scores by sqrt(d) does, and what other laws do.\n\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-12s %s\n", commands[i]->name, commands[i]->summary);
    printf("\nscale_study COMMAND --help lists the options of one. All take --seeds N, --threads N, --d LIST, --laws "
           "LIST,\n"
           "--json FILE, --plot FILE.svg, --quick, --resume FILE. Laws:\n\n");
    for (int i = 0; i < STUDY_LAWS; i++)
        printf("  %-12s %s\n", study_rules[i].name, study_rules[i].words);
    printf(
        "\nThe first lines of every run are a seed line, which is the command that repeats it bit for bit on the same\n"
        "kernels and BLAS, and the definitions that the run holds to. Progress goes to stderr; Ctrl-C prints what is\n"
        "finished.\n%s\n",
        status_words);
    exit(fflush(stdout) == 0 ? 0 : 1);
}

static const study_command *find_command(const char *name)
{
    char known[256] = "";
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", commands[i]->name);
    }
    bench_usage_error("scale_study", "'%s' is none of the commands %s", name, known);
}

/* ---- The seed line ------------------------------------------------------------------------------------------------- */

static void add_text(char *line, size_t size, const char *text)
{
    size_t used = strlen(line);
    snprintf(line + used, size - used, "%s", text);
}

static void add_list(char *line, size_t size, const char *option, const bench_list *list, const char *const *words)
{
    add_text(line, size, option);
    for (int i = 0; i < list->count; i++) {
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)list->values[i]);
        add_text(line, size, i ? "," : " ");
        add_text(line, size, words ? words[list->values[i]] : number);
    }
}

static void add_reals(char *line, size_t size, const char *option, const bench_reals *reals)
{
    char number[32];
    add_text(line, size, option);
    for (int i = 0; i < reals->count; i++) {
        add_text(line, size, i ? "," : " ");
        add_text(line, size, study_number_text(reals->values[i], number));
    }
}

/* The command that repeats the run: everything that a result depends on, and nothing else. */
static void write_seed_line(study *s)
{
    const study_settings *of = &s->settings;
    const unsigned takes = s->command->takes;
    char *line = s->seed_line;
    size_t size = sizeof s->seed_line;
    snprintf(line, size, "scale_study %s%s", s->command->name, of->quick ? " --quick" : "");
    add_list(line, size, " --seed", &of->seed, NULL);
    add_list(line, size, " --seeds", &of->seeds, NULL);
    add_list(line, size, " --d", &of->d, NULL);
    add_list(line, size, " --laws", &of->laws, study_law_words);
    if (takes & STUDY_TAKES_N)
        add_list(line, size, " --n", &of->n, NULL);
    if (takes & STUDY_TAKES_OPTIMIZERS)
        add_list(line, size, " --optimizers", &of->optimizers, study_optimizer_words);
    if (takes & STUDY_TAKES_DTYPE)
        add_list(line, size, " --dtype", &of->dtype, study_dtype_words);
    if (takes & STUDY_TAKES_RATES)
        add_reals(line, size, " --rates", &of->rates);
    if (takes & STUDY_TAKES_REFINE)
        add_reals(line, size, " --refine", &of->refine);
    if (takes & STUDY_TAKES_MODEL) {
        add_list(line, size, " --steps", &of->steps, NULL);
        add_list(line, size, " --layers", &of->layers, NULL);
        add_list(line, size, " --batch", &of->batch, NULL);
        add_text(line, size, " --text ");
        add_text(line, size, of->text ? of->text : "");
    }
}

/* ---- Going on ------------------------------------------------------------------------------------------------------ */

/* Parses the seed line of the file that --resume names, and then the command line again, on top of it. */
static void parse_resumed(study *s, const json_t *document, int argc, char **argv)
{
    const char *made_by = json_string_value(json_object_get(document, "seed_line"));
    char *words[MAX_WORDS], *rest = NULL;
    int n = 0;
    if (!made_by || strlen(made_by) >= sizeof s->resumed_line)
        bench_usage_error("scale_study", "--resume: %s has no seed line", s->resume_path);
    strcpy(s->resumed_line, made_by);
    for (char *word = strtok_r(s->resumed_line, " ", &rest); word && n < MAX_WORDS; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    if (n < 2 || strcmp(words[1], s->command->name) != 0)
        bench_usage_error("scale_study", "--resume: %s is of '%s', not of the command %s", s->resume_path, made_by,
                          s->command->name);
    s->settings = (study_settings){0};
    parse(s, n - 1, words + 1);
    parse(s, argc, argv);
    resolve(s->command, &s->settings);
    write_seed_line(s);
    if (strcmp(s->seed_line, made_by) != 0)
        bench_usage_error("scale_study", "--resume: %s is of another run:\n    %s\n    %s", s->resume_path, made_by,
                          s->seed_line);
}

static void resume(study *s, int argc, char **argv)
{
    json_error_t error;
    json_t *document = json_load_file(s->resume_path, 0, &error);
    if (!document)
        bench_usage_error("scale_study", "--resume: cannot read %s: %s", s->resume_path, error.text);
    parse_resumed(s, document, argc, argv);
    if (s->command->prepare)
        s->command->prepare(s, document);
    study_take_up(s, document);
    json_decref(document);
    if (!s->json_path)
        s->json_path = s->resume_path;
}

/* ---- The run ------------------------------------------------------------------------------------------------------- */

static void print_head(FILE *out, const study *s)
{
    const bench_machine *m = &s->machine;
    fprintf(out, "llm-lab %s on %s (%s kernels, %d-bit vectors), %s (%s%s%s), %d thread%s\n", lab_version(), m->cpu,
            m->kernels, m->vector_bits, m->blas, m->blas_core, *m->blas_core ? ", " : "", m->blas_threading, m->threads,
            m->threads == 1 ? "" : "s");
    fprintf(out, "seed line: %s\n", s->seed_line);
    for (int i = 0; i < s->settings.laws.count; i++) {
        const study_rule *rule = &study_rules[s->settings.laws.values[i]];
        fprintf(out, "%s %s: %s\n", i ? "    " : "laws", rule->name, rule->words);
    }
    if (s->command->rules)
        s->command->rules(out, s);
    fputc('\n', out);
    fflush(out);
}

static bool report(FILE *people, const study *s)
{
    int64_t finished = 0;
    for (int64_t i = 0; i < s->results.jobs; i++)
        finished += s->results.finished[i];
    s->command->report(people, s);
    bool good = !s->json_path || study_write(s->json_path, study_document(s));
    if (finished < s->results.jobs && s->json_path && !bench_is_stdout(s->json_path))
        fprintf(people, "\ninterrupted: %lld of %lld jobs are finished; scale_study %s --resume %s goes on\n",
                (long long)finished, (long long)s->results.jobs, s->command->name, s->json_path);
    else if (finished < s->results.jobs)
        fprintf(people, "\ninterrupted: %lld of %lld jobs are finished; with --json FILE they could have gone on\n",
                (long long)finished, (long long)s->results.jobs);
    if (s->plot_path && s->command->draw && finished > 0)
        good = study_plot(s) && good;
    return fflush(people) == 0 && good;
}

int main(int argc, char **argv)
{
    bench_now();
    if (argc < 2)
        bench_usage_error("scale_study", "a command is missing; --help lists them");
    if (strcmp(argv[1], "--help") == 0)
        print_help();
    study s = {.command = find_command(argv[1])};
    parse(&s, argc - 1, argv + 1);
    resolve(s.command, &s.settings);
    write_seed_line(&s);
    if (s.plot_path && !study_plot_possible()) {
        fprintf(stderr, "scale_study: --plot: there is no gnuplot here; the numbers come all the same\n");
        s.plot_path = NULL;
    }
    if (s.resume_path)
        resume(&s, argc - 1, argv + 1);
    else if (s.command->prepare)
        s.command->prepare(&s, NULL);
    if (!s.resume_path && !study_allocate(&s)) {
        fprintf(stderr, "scale_study: no memory for results\n");
        return 1;
    }
    const int threads = (int)s.settings.threads.values[0];
    bench_machine_describe(&s.machine, threads);
    FILE *people = bench_is_stdout(s.json_path) ? stderr : stdout;
    print_head(people, &s);
    bool good = lab_set_threads(threads) == LAB_OK && study_run(&s);
    good = report(people, &s) && good;
    free(s.results.values);
    free(s.results.finished);
    if (s.command->finish)
        s.command->finish();
    return !good ? 1 : study_interrupted() ? 130 : 0;
}
