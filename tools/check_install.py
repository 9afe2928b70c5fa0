"""check_install.py SOURCE BUILD: the library as others use it.

Installs into an empty folder and, through pkg-config alone, compiles the first program in C11 and in C++17, with the
shared and with the static library, and runs all four; so it does with a stranger's project, which trains in threads,
forks, and calls BLAS itself (tests/stranger); then builds a project that has this one as a subproject. With a tagged
version and abidiff at hand, compares the interface with that version's. Ends with "N passed, N failed".
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

LARGEST_STRIPPED = 1_500_000  # bytes
FIRST_PROGRAM_SAYS = r'8 heads, 128 tokens; .* (is|ends with) 0\.\d+\n'

passed = failed = 0


def say(good, what, detail=''):
    global passed, failed
    passed += bool(good)
    failed += not good
    print(('ok      ' if good else 'FAILED  ') + what, flush=True)
    if not good and detail:
        print(detail)


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def installed_programs(source, build, work):
    prefix = os.path.join(work, 'prefix')
    done = run(['meson', 'install', '-C', build, '--no-rebuild', '--destdir', prefix])
    say(done.returncode == 0, 'meson install', done.stdout)
    found = [os.path.join(d, 'llmlab.pc') for d, _, names in os.walk(prefix) if 'llmlab.pc' in names]
    if not found:
        return say(False, 'llmlab.pc is installed')
    library_dir = os.path.dirname(os.path.dirname(found[0]))
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(found[0]), PKG_CONFIG_SYSROOT_DIR=prefix)

    def flags(*options):
        return run(['pkg-config', *options, 'llmlab'], env=environment).stdout.split()

    programs = [('C11', ['cc', '-std=c11', '-pedantic', '-Wall', '-Werror'], 'examples/first.c'),
                ('C++17', ['c++', '-std=c++17', '-Wall', '-Werror'], 'tests/install/first.cpp')]
    for language, compiler, program in programs:
        for kind in 'shared', 'static':
            what = f'{language}, {kind} library'
            output = os.path.join(work, 'program')
            libraries = flags('--libs') if kind == 'shared' else [
                os.path.join(library_dir, 'libllmlab.a') if f == '-lllmlab' else f for f in flags('--static', '--libs')]
            built = run(compiler + flags('--cflags') + [os.path.join(source, program), '-o', output] + libraries)
            if built.returncode != 0:
                say(False, what, built.stdout)
                continue
            ran = run([output], env=dict(os.environ, LD_LIBRARY_PATH=library_dir if kind == 'shared' else ''))
            say(ran.returncode == 0 and re.fullmatch(FIRST_PROGRAM_SAYS, ran.stdout), what, ran.stdout)
    strangers_project(source, work, library_dir, flags)
    shared = os.path.join(library_dir, 'libllmlab.so')
    stripped = os.path.join(work, 'stripped.so')
    subprocess.run(['strip', '-o', stripped, shared], check=True)
    size = os.path.getsize(stripped)
    say(size < LARGEST_STRIPPED, f'the stripped shared library has {size} bytes, fewer than {LARGEST_STRIPPED}')
    return shared


def strangers_project(source, work, library_dir, flags):
    if run(['pkg-config', '--exists', 'openblas']).returncode != 0:
        print('        (no OpenBLAS to call beside the library: the stranger\'s project is not built)')
        return
    blas = {option: run(['pkg-config', option, 'openblas']).stdout.split() for option in ('--cflags', '--libs')}
    built = run(['make', '-C', os.path.join(source, 'tests/stranger'), 'OUT=' + work,
                 'FLAGS=' + ' '.join(flags('--cflags') + blas['--cflags']),
                 'LIBS=' + ' '.join(flags('--libs') + blas['--libs'])])
    if built.returncode != 0:
        return say(False, 'the stranger\'s project', built.stdout)
    for language, kind in ('c', 'C11'), ('cpp', 'C++17'), ('openmp', 'C11 with OpenMP'):
        try:
            ran = run([os.path.join(work, 'stranger_' + language)], timeout=120,
                      env=dict(os.environ, LD_LIBRARY_PATH=library_dir))
            say(ran.returncode == 0, f'the stranger\'s project, {kind}: threads, a fork, BLAS beside us', ran.stdout)
        except subprocess.TimeoutExpired as late:
            say(False, f'the stranger\'s project, {kind}: ends within two minutes', str(late.stdout))


def subproject(source, work):
    consumer = os.path.join(work, 'consumer')
    os.makedirs(os.path.join(consumer, 'subprojects'))
    inside = os.path.join(consumer, 'subprojects', 'llm-lab')
    shutil.copytree(source, inside, ignore=shutil.ignore_patterns('build*', '.git'))
    shutil.copy(os.path.join(source, 'tests/install/meson.build.in'), os.path.join(consumer, 'meson.build'))
    shutil.copy(os.path.join(source, 'examples/first.c'), consumer)
    shutil.copy(os.path.join(source, 'tests/install/first.cpp'), consumer)
    # That it compiles and links is asked here, not how fast it is.
    for command in (['meson', 'setup', 'build', '-Dbuildtype=debug'],
                    ['ninja', '-C', 'build', 'first_c', 'first_cpp'],
                    ['build/first_c'], ['build/first_cpp']):
        done = run(command, cwd=consumer)
        if done.returncode != 0:
            return say(False, 'as a subproject: ' + ' '.join(command), done.stdout[-3000:])
    say(True, 'as a subproject of a C and C++ project')


def interface(source, shared, work):
    tag = run(['git', '-C', source, 'describe', '--tags', '--abbrev=0', '--match', 'v*']).stdout.strip()
    if not tag or ' ' in tag or not shutil.which('abidiff'):
        print('        (no tagged version or no abidiff: the interface is compared with nothing)')
        return
    old = os.path.join(work, 'old')
    subprocess.run(['git', '-C', source, 'worktree', 'add', '--detach', old, tag], check=True)
    try:
        run(['meson', 'setup', 'build', '-Dbuildtype=debug'], cwd=old)
        run(['ninja', '-C', 'build', 'src/libllmlab.so'], cwd=old)
        done = run(['abidiff', '--no-added-syms', os.path.join(old, 'build/src/libllmlab.so'), shared])
        say(done.returncode in (0, 4), 'the interface of ' + tag + ' still holds', done.stdout)
    finally:
        subprocess.run(['git', '-C', source, 'worktree', 'remove', '--force', old], check=True)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    source, build = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as work:
        shared = installed_programs(source, build, work)
        subproject(source, work)
        if shared:
            interface(source, shared, work)
    print(f'{passed} passed, {failed} failed')
    return failed > 0


sys.exit(main())
