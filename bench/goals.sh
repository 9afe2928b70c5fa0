#!/usr/bin/env bash
# goals.sh - the goals for fused attention, line by line: what, measured, goal, met or not.
#
# Everything is measured by attn_bench; shares are of the peak of fused multiply-adds in the same run, and rows that are
# compared are measured in the same rounds.
set -u

usage() {
    cat <<'TEXT'
usage: bash bench/goals.sh [OPTION]...

Measures fused attention and prints its goals: what, measured, goal, met or not. Takes about three minutes on two cores
where nobody else computes; other work makes everything slower, shares of the peak too.

  --build DIR      where attn_bench was built (default build)
  --rounds N       samples of every timed row (default: as many as fit into 40 s)
  --short          without the two long calls that show what memory is needed (T = 32768 and 131072)
  --python PYTHON  a Python that has torch or onnxruntime, to be held against; needs --peers, and takes three minutes more
  --beside         only that: nothing but the comparison with them
  --peers FILE     the script that times them: takes --threads, --heads, --d, --t, --dtype, --pass, --causal and --impl
                   as attn_bench does, and prints rows as JSON, one a line, with attn_bench's keys
  --help           this text

Exit status: 0 done, whatever was met; 1 something could not be run; 2 a bad option.
TEXT
}

complain() { # STATUS MESSAGE
    printf 'goals.sh: %s\n' "$2" >&2
    exit "$1"
}

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
rounds=()
short=no
only_beside=no
python=
peers=
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        usage
        exit 0
        ;;
    --short) short=yes ;;
    --beside) only_beside=yes ;;
    --build | --rounds | --python | --peers)
        [ $# -gt 1 ] || complain 2 "$1: its value is missing"
        case $1 in
        --build) build=$2 ;;
        --rounds) rounds=(--rounds "$2") ;;
        --python) python=$2 ;;
        --peers) peers=$2 ;;
        esac
        shift
        ;;
    *) complain 2 "unknown option '$1'; --help lists them" ;;
    esac
    shift
done
if [ -n "$python$peers" ]; then
    [ -n "$python" ] && [ -r "$peers" ] || complain 2 "--python and --peers go together, and --peers is a file"
    command -v "$python" >/dev/null || complain 2 "--python: there is no $python"
elif [ $only_beside = yes ]; then
    complain 2 "--beside: --python and --peers are missing"
fi
bench=$build/bench/attn_bench
[ -x "$bench" ] || complain 2 "--build: there is no $bench; ninja -C '$build' makes it"

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

# Some environments force an older core type on OpenBLAS.
run() { # NAME ARGUMENTS...: leaves NAME.csv, NAME.json and NAME.txt
    local name=$1
    shift
    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE "$bench" "$@" --csv "$folder/$name.csv" --json "$folder/$name.json" \
        >"$folder/$name.txt" || complain 1 "attn_bench could not be run: $*"
    printf '\n' >&2
}

# ---- What is measured ------------------------------------------------------------------------------------------------

fused=(--impl fused --d 64)
one_size=("${fused[@]}" --heads 8 --t 1024)
timed=(
    "${fused[@]}" --heads 8 --pass forward --t 512,1024,4096
    --and "${one_size[@]}" --pass backward
    --and "${one_size[@]}" --pass forward --causal none --d 16,32,128
    --and "${one_size[@]}" --pass forward --dtype f64
    --and "${fused[@]}" --heads 96 --t 64 --pass forward --causal causal
    --and "${one_size[@]}" --causal none --threads 1,2
    --and "${fused[@]}" --heads 1 --t 8192 --causal none --threads 1,2
    --and "${fused[@]}" --heads 32 --kv-heads 0,4 --t 1024 --causal none
    --and "${fused[@]}" --heads 8 --t 8192 --pass forward --causal causal --window 255
    --and --impl fused --pass decode,cached
)
first=timed # the run that says what machine this is
if [ $only_beside = yes ]; then
    first=beside1
    short=yes
else
    run timed "${timed[@]}" "${rounds[@]}"
    LAB_KERNELS=avx2 run avx2 "${one_size[@]}" --pass forward --rounds 15
fi
if [ $short = no ]; then
    run long "${fused[@]}" --heads 8 --t 32768 --pass backward --causal causal --threads 2 --rounds 0 \
        --and "${fused[@]}" --heads 1 --t 131072 --pass backward --causal causal --threads 2
fi
# Others are timed in turns with the same rows of ours: who comes first meets the same clock and neighbours as who comes
# last, and the best of all turns counts on both sides.
turns=3
beside=(
    "${fused[@]}" --heads 8 --t 512,1024
    --and "${fused[@]}" --heads 8 --t 4096 --pass forward --causal causal
    --and "${one_size[@]}" --pass forward --causal none --d 16,32,128
    --and "${one_size[@]}" --pass forward --dtype f64
    --and "${fused[@]}" --heads 96 --t 64 --pass forward --causal causal
)
peer() { # ARGUMENTS...: adds rows to peers.jsonl
    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE "$python" "$peers" --threads 1 "$@" >>"$folder/peers.jsonl" \
        2>"$folder/peers.err" || {
        cat "$folder/peers.err" >&2
        complain 1 "$peers could not be run"
    }
}
: >"$folder/peers.jsonl"
if [ -n "$python" ]; then
    for ((turn = 1; turn <= turns; turn++)); do
        printf 'beside others, turn %d of %d\n' "$turn" "$turns" >&2
        run "beside$turn" "${beside[@]}" --rounds 7
        peer --heads 8 --d 64 --t 512,1024 --pass forward,backward --causal both --impl torch,ort
        peer --heads 8 --d 64 --t 4096 --pass forward --causal causal --impl torch,ort
        peer --heads 8 --d 16,32,128 --t 1024 --pass forward --causal none --impl torch,ort
        peer --heads 8 --d 64 --t 1024 --dtype f64 --pass forward --causal both --impl torch
        peer --heads 96 --d 64 --t 64 --pass forward --causal causal --impl torch,ort
    done
fi

# ---- What it comes to ------------------------------------------------------------------------------------------------

# The lines above the first table: machine and anchors.
sed '/^$/,$d' "$folder/$first.txt"
grep -h 'THIS MACHINE WAS BUSY' "$folder"/*.txt | sort -u

# A number from a JSON file, by its key; the first one, or the n-th.
anchor() { # NAME KEY N
    [ ! -f "$folder/$1.json" ] || sed -n "s/^ *\"$2\": \([0-9.e+-]*\),\{0,1\}$/\1/p" "$folder/$1.json" | sed -n "$3p"
}
kernels() { # NAME
    [ ! -f "$folder/$1.json" ] || sed -n 's/^ *"kernels": "\(.*\)",$/\1/p' "$folder/$1.json"
}
full_rate=$(grep -c 'x 16 lanes x 2 x 2 pipes' "$folder/$first.txt")

awk -F, -v only_beside="$only_beside" -v tile32="$(anchor timed tile_gflops 1)" -v tile64="$(anchor timed tile_gflops 2)" \
    -v peak32="$(anchor timed fma_gflops 1)" -v peak64="$(anchor timed fma_gflops 2)" \
    -v avx2="$(kernels avx2)" -v long="$([ $short = no ] && echo yes)" -v full_rate="$full_rate" \
    -v with_peers="${python:+yes}" -v turns="$turns" '
    # A line; a goal of 0 is none. What is shown is what is compared.
    function line(what, value, digits, unit, sign, goal,    shown, good) {
        if (value == "") {
            printf "%-66s %12s\n", what, "not measured"
            missing += goal > 0
            return
        }
        shown = sprintf("%.*f", digits, value)
        printf (goal > 0 ? "%-66s %8s %-3s" : "%-66s %8s %s"), what, shown, unit
        if (goal > 0) {
            good = sign == ">=" ? shown + 0 >= goal : shown + 0 <= goal
            printf "  %s %6s %-3s  %s", sign, goal, unit, good ? "met" : "NOT MET"
            goals++
            met += good
        }
        printf "\n"
    }
    function key(dtype, causal, pass, heads, kv, d, t, threads) {
        return dtype " " causal " " pass " " heads " " kv " " d " " t " " threads
    }
    # Of the peak, in per cent.
    function share(what, goal, file, dtype, causal, pass, heads, d, t,    k) {
        k = file " " key(dtype, causal, pass, heads, heads, d, t, 1)
        line(what, k in ms ? 100 * of_fma[k] : "", 1, "%", ">=", goal)
    }
    # How many times faster b is than a.
    function times(what, goal, a, b) {
        line(what, ("timed " a) in ms && ("timed " b) in ms ? ms["timed " a] / ms["timed " b] : "", 2, "x", ">=", goal)
    }
    function larger(a, b) {
        return a + 0 > b + 0 ? a + 0 : b + 0
    }
    # What a text like "key": "value has behind the key.
    function value_of(text) {
        sub(/^"[a-z_]*": "?/, "", text)
        return text
    }
    function field(text, name,    at) {
        at = match(text, "\"" name "\": \"?[^,}\"]*")
        return at ? value_of(substr(text, RSTART, RLENGTH)) : ""
    }
    # Useful work a second, ours and theirs, and how many times theirs ours is.
    function ratio(what, goal, who, dtype, causal, pass, heads, d, t,    k) {
        k = key(dtype, causal, pass, heads, heads, d, t, 1)
        if (!((who " " k) in peer_gflops)) {
            line(sprintf("%-38s %s", what, who), "", 0, "", ">=", goal)
            return
        }
        line(sprintf("%-38s %-7s %8.1f %8.1f", what, who, our_gflops[k], peer_gflops[who " " k]), \
            our_gflops[k] / peer_gflops[who " " k], 2, "x", ">=", goal)
    }
    function goals_alone(    k) {
        printf "\n%-66s %8s      %12s\n", "one thread, f32, 8 heads, d = 64 unless said", "measured", "goal"
        line("tile product, f32, of the FMA peak", 100 * tile32 / peak32, 1, "%", ">=", 95)
        line("tile product, f64", 100 * tile64 / peak64, 1, "%", ">=", 95)
        share("forward full, T = 512", 85, "timed", "f32", "false", "forward", 8, 64, 512)
        share("forward full, T = 1024", 85, "timed", "f32", "false", "forward", 8, 64, 1024)
        share("forward full, T = 4096", 85, "timed", "f32", "false", "forward", 8, 64, 4096)
        share("forward causal, T = 512", 74, "timed", "f32", "true", "forward", 8, 64, 512)
        share("forward causal, T = 1024", 79, "timed", "f32", "true", "forward", 8, 64, 1024)
        share("forward causal, T = 4096", 84, "timed", "f32", "true", "forward", 8, 64, 4096)
        share("backward full, T = 1024", 90, "timed", "f32", "false", "backward", 8, 64, 1024)
        share("backward causal, T = 1024", 84, "timed", "f32", "true", "backward", 8, 64, 1024)
        share("forward full, d = 16, T = 1024", 58, "timed", "f32", "false", "forward", 8, 16, 1024)
        share("forward full, d = 32, T = 1024", 76, "timed", "f32", "false", "forward", 8, 32, 1024)
        share("forward full, d = 128, T = 1024", 86, "timed", "f32", "false", "forward", 8, 128, 1024)
        share("f64, forward full, T = 1024", 80, "timed", "f64", "false", "forward", 8, 64, 1024)
        share("f64, forward causal, T = 1024", 74, "timed", "f64", "true", "forward", 8, 64, 1024)
        share("T = 64, causal, 96 heads, forward", 36, "timed", "f32", "true", "forward", 96, 64, 64)
        if (avx2 == "avx2") {
            share("LAB_KERNELS=avx2, forward full, T = 1024", 82, "avx2", "f32", "false", "forward", 8, 64, 1024)
            share("LAB_KERNELS=avx2, forward causal, T = 1024", 75, "avx2", "f32", "true", "forward", 8, 64, 1024)
        } else {
            print "LAB_KERNELS=avx2: not on this processor"
        }
        times("two threads against one, forward full, T = 1024", 1.85, key("f32", "false", "forward", 8, 8, 64, 1024, 1), \
            key("f32", "false", "forward", 8, 8, 64, 1024, 2))
        times("two threads against one, backward full, T = 1024", 1.85, \
            key("f32", "false", "backward", 8, 8, 64, 1024, 1), key("f32", "false", "backward", 8, 8, 64, 1024, 2))
        times("two threads against one, forward full, one head, T = 8192", 1.85, \
            key("f32", "false", "forward", 1, 1, 64, 8192, 1), key("f32", "false", "forward", 1, 1, 64, 8192, 2))
        times("two threads against one, backward full, one head, T = 8192", 1.85, \
            key("f32", "false", "backward", 1, 1, 64, 8192, 1), key("f32", "false", "backward", 1, 1, 64, 8192, 2))
        times("32 heads over 4 of keys against 32 over 32, forward, T = 1024", 1, \
            key("f32", "false", "forward", 32, 32, 64, 1024, 1), key("f32", "false", "forward", 32, 4, 64, 1024, 1))
        times("32 heads over 4 of keys against 32 over 32, backward, T = 1024", 1, \
            key("f32", "false", "backward", 32, 32, 64, 1024, 1), key("f32", "false", "backward", 32, 4, 64, 1024, 1))
        k = "timed " key("f32", "true", "forward", 8, 8, 64, 8192, 1) " window"
        line("window (255, 0), causal, T = 8192, forward", k in ms ? 100 * of_fma[k] : "", 1, "%", ">=", 45)
        k = "timed " key("f32", "true", "decode", 32, 32, 64, 4096, 1)
        line("decoding, 32 heads, Tk = 4096, of the read bandwidth", k in ms ? 100 * of_read[k] : "", 1, "%", ">=", 80)
        k = "timed " key("f32", "true", "decode", 32, 4, 64, 4096, 1)
        line("decoding, 32 heads over 4 of keys", k in ms ? 100 * of_read[k] : "", 1, "%", ">=", 0)
        k = "timed " key("f32", "true", "cached", 32, 32, 64, 4096, 1)
        line("decoding from a cache, 32 heads, one key appended", k in ms ? 100 * of_read[k] : "", 1, "%", ">=", 0)
        if (long) {
            # Two numbers a row are saved for backward.
            k = "long " key("f32", "true", "backward", 8, 8, 64, 32768, 2)
            line("workspace, T = 32768, forward and backward, two threads, MiB", \
                k in ms ? (workspace[k] - 2 * 4 * 8 * 32768) / 1048576 : "", 1, "MiB", "<=", 64)
            k = "long " key("f32", "true", "backward", 1, 1, 64, 131072, 2)
            line("T = 131072, one head, causal, backward, two threads, seconds", k in ms ? ms[k] / 1000 : "", 1, "s", "<=", 0)
            goals++
            met += k in ms
            print "T = 131072, one head, causal: forward and backward " (k in ms ? "run: met" : "DO NOT RUN: NOT MET")
        }
        printf "\n%d of %d goals met%s\n", met, goals + missing, missing ? sprintf(", %d not measured", missing) : ""
    }
    function goals_beside_others(    who, t, d) {
        printf "\nbeside others:"
        for (who in version)
            printf " %s", who
        printf "; one thread, GF/s of the best of %d turns\n", turns
        printf "%-38s %-7s %8s %8s %10s      %12s\n", "f32, 8 heads, d = 64 unless said", "", "ours", "theirs", "ratio", "goal"
        for (t = 512; t <= 1024; t *= 2) {
            ratio("forward full, T = " t, full_rate ? 2.3 : 1.1, "torch", "f32", "false", "forward", 8, 64, t)
            ratio("forward full, T = " t, full_rate ? 1.12 : 0, "ort", "f32", "false", "forward", 8, 64, t)
        }
        ratio("forward causal, T = 512", full_rate ? 4.2 : 1.8, "torch", "f32", "true", "forward", 8, 64, 512)
        ratio("forward causal, T = 512", 0, "ort", "f32", "true", "forward", 8, 64, 512)
        ratio("forward causal, T = 1024", full_rate ? 3.3 : 1.4, "torch", "f32", "true", "forward", 8, 64, 1024)
        ratio("forward causal, T = 1024", 2.5, "ort", "f32", "true", "forward", 8, 64, 1024)
        ratio("forward causal, T = 4096", 0, "torch", "f32", "true", "forward", 8, 64, 4096)
        ratio("forward causal, T = 4096", 0, "ort", "f32", "true", "forward", 8, 64, 4096)
        ratio("backward full, T = 512", 0, "torch", "f32", "false", "backward", 8, 64, 512)
        ratio("backward full, T = 1024", 2.5, "torch", "f32", "false", "backward", 8, 64, 1024)
        ratio("backward causal, T = 512", 0, "torch", "f32", "true", "backward", 8, 64, 512)
        ratio("backward causal, T = 1024", 3.7, "torch", "f32", "true", "backward", 8, 64, 1024)
        for (d = 16; d <= 128; d *= d == 32 ? 4 : 2) {
            ratio("forward full, d = " d ", T = 1024", 1, "torch", "f32", "false", "forward", 8, d, 1024)
            ratio("forward full, d = " d ", T = 1024", 1, "ort", "f32", "false", "forward", 8, d, 1024)
        }
        ratio("f64, forward full, T = 1024", 2, "torch", "f64", "false", "forward", 8, 64, 1024)
        ratio("f64, forward causal, T = 1024", 2.8, "torch", "f64", "true", "forward", 8, 64, 1024)
        ratio("T = 64, causal, 96 heads, forward", 1.5, "torch", "f32", "true", "forward", 96, 64, 64)
        ratio("T = 64, causal, 96 heads, forward", 0, "ort", "f32", "true", "forward", 96, 64, 64)
        printf "%d of %d goals met%s\n", met, goals + missing, missing ? sprintf(", %d not measured", missing) : ""
    }
    FNR == 1 { file = FILENAME; sub(/.*\//, "", file); sub(/\..*/, "", file) }
    file == "peers" {
        who = field($0, "impl")
        version[who]++
        sub(/-.*/, "", who)
        k = who " " key(field($0, "dtype"), field($0, "causal"), field($0, "pass"), field($0, "heads"), \
            field($0, "heads"), field($0, "d"), field($0, "tk"), 1)
        peer_gflops[k] = larger(field($0, "gflops"), peer_gflops[k])
        next
    }
    FNR == 1 { split($0, names); for (i in names) column[names[i]] = i; next }
    file ~ /^beside/ {
        k = key($column["dtype"], $column["causal"], $column["pass"], $column["heads"], $column["kv_heads"], \
            $column["d"], $column["tk"], $column["threads"])
        our_gflops[k] = larger($column["gflops"], our_gflops[k])
        next
    }
    {
        k = file " " key($column["dtype"], $column["causal"], $column["pass"], $column["heads"], $column["kv_heads"], \
            $column["d"], $column["tk"], $column["threads"])
        if ($column["window"] != "")
            k = k " window"
        ms[k] = $column["ms_min"]
        of_fma[k] = $column["share_of_fma"]
        of_read[k] = $column["share_of_read"]
        workspace[k] = $column["workspace_bytes"]
    }
    END {
        if (only_beside != "yes")
            goals_alone()
        if (!with_peers)
            exit
        goals = met = missing = 0
        goals_beside_others()
    }' "$folder"/*.csv "$folder/peers.jsonl"
