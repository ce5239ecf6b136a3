/* The door of `impactarbiter attach`: a library for a process that runs.
 *
 * It is loaded by ptrace on a thread that may be anywhere, in Python with the
 * GIL as well.  So its constructor calls nothing of Python's: it starts a
 * thread, which asks for the GIL as every thread does and runs the file that
 * lies beside the library.  Knows nothing of what that file does.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* What is run fits in here by far; more is not ours. */
enum { MOST_BYTES = 1 << 16 };

static const char FILE_NAME[] = "inside.py";
static char code[MOST_BYTES];

/* Reads the file beside this library; 0, or -1. */
static int
read_code(void)
{
    Dl_info self;
    char path[PATH_MAX];
    if (!dladdr(code, &self) || self.dli_fname == NULL)
        return -1;
    const char *slash = strrchr(self.dli_fname, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash - self.dli_fname) + 1;
    if (folder == 0 || folder + sizeof FILE_NAME > sizeof path)
        return -1;
    memcpy(path, self.dli_fname, folder);
    memcpy(path + folder, FILE_NAME, sizeof FILE_NAME);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    size_t size = fread(code, 1, sizeof code - 1, file);
    int whole = feof(file) && !ferror(file);
    fclose(file);
    code[size] = '\0';
    return whole ? 0 : -1;
}

/* Runs the code in a namespace of its own; what it raises goes nowhere. */
static void
run_code(void)
{
    PyObject *names = PyDict_New();
    if (names != NULL &&
        PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) ==
            0) {
        PyObject *result = PyRun_String(code, Py_file_input, names, names);
        Py_XDECREF(result);
    }
    PyErr_Clear();
    Py_XDECREF(names);
}

static void *
enter(void *unused)
{
    (void)unused;
    if (read_code() < 0)
        return NULL;
    PyGILState_STATE state = PyGILState_Ensure();
    run_code();
    PyGILState_Release(state);
    return NULL;
}

__attribute__((constructor)) static void
open_door(void)
{
    if (!Py_IsInitialized())
        return;
    int error = errno; /* of the thread that was stopped */
    /* Signals stay with the program's own threads. */
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t detached;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &detached, enter, NULL);
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
}
