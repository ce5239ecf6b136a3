/* The statement that grows a holder. */

#include "../base/compat.h"
#include "statement.h"
#include "bounds.h"
#include "carried.h"

#include "../base/build.h"
#include "../base/read.h"
#include "../heap/own.h"
#include "../ledger/ledger.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject *file, *function; /* owned */
    int line;
    PyObject *calls; /* owned: ((file, line, function), ...) around it, of the
                        user's code, the innermost first; of one that grew it
                        alone */
    uint32_t times;
    uint32_t idle; /* times that it ran and the holder did not grow */
    int running;   /* it ran, and the holder has not grown by it yet */
    Py_ssize_t items;
    Py_ssize_t carried; /* of these, such as lead to tensors, or may */
} statement;

/* Calls around a statement that are told. */
#define MOST_CALLS 3

/* Threads of a program that is watched; where there are more, none is. */
#define MOST_THREADS 64

typedef struct {
    PyThreadState *thread; /* compared only */
    statement now; /* where it is, as far as it was seen */
} position;

static struct {
    uint32_t path; /* IA_NO_PATH: nothing is watched */
    int by_graph;
    int held; /* the path did, at every event */
    ia_visit last;
    ia_chain chain;
    position positions[MOST_THREADS];
    int nthreads;
    statement seen[IA_MOST_STATEMENTS];
    int nseen;
    uint32_t events;
    ia_ptrmap is_user; /* code -> 0 or 1 */
} watch;

static void
forget(statement *s)
{
    Py_CLEAR(s->file);
    Py_CLEAR(s->function);
    Py_CLEAR(s->calls);
    *s = (statement){0};
}

/* The file of the code, or of the module that it was made in: a dataclass has
 * methods from no file. */
static const char *
file_of(PyFrameObject *frame, PyCodeObject *code, char *buf, size_t size)
{
    const char *file = ia_text(code->co_filename, buf, size);
    if (file[0] != '<')
        return file;
    PyObject *globals = PyFrame_GetGlobals(frame);
    PyObject *module = ia_dict_value(globals, "__file__");
    Py_DECREF(globals); /* the frame has it */
    return module != NULL && PyUnicode_CheckExact(module)
               ? ia_text(module, buf, size)
               : file;
}

static int
is_user(PyFrameObject *frame, PyCodeObject *code)
{
    uint32_t known = ia_ptrmap_get(&watch.is_user, (uintptr_t)code);
    if (known != IA_PTRMAP_NONE)
        return (int)known;
    char buf[IA_FILE_NAME];
    const char *file = file_of(frame, code, buf, sizeof buf);
    int user = !ia_file_is_library(file);
    ia_ptrmap_set(&watch.is_user, (uintptr_t)code, (uint32_t)user);
    return user;
}

static ia_visit
look_at_holder(void)
{
    return ia_visit_path(watch.path, watch.by_graph ? &watch.chain : NULL);
}

static int
is_growth(const ia_visit *before, const ia_visit *after)
{
    if (watch.by_graph && watch.chain.goes_on)
        return 1;
    if (before->length >= 0 && !after->linked)
        return after->length > before->length;
    if (after->names > before->names && before->names >= 0)
        return 1;
    return after->value != before->value || after->graph != before->graph;
}

/* Same file, line and function: one statement. */
static statement *
known(const statement *s)
{
    for (int i = 0; i < watch.nseen; i++)
        if (watch.seen[i].line == s->line && watch.seen[i].file == s->file &&
            watch.seen[i].function == s->function)
            return &watch.seen[i];
    return NULL;
}

static int
runs(const statement *s, const PyCodeObject *code)
{
    return code->co_filename == s->file && code->co_qualname == s->function;
}

/* The calls that had led to a statement when it was seen first, from a frame
 * on that it called, or that it stands in: MOST_CALLS of them at most.  A new
 * tuple, or NULL. */
static PyObject *
calls_around(const statement *s, PyFrameObject *frame)
{
    PyObject *calls = PyList_New(0);
    PyFrameObject *f = (PyFrameObject *)Py_XNewRef((PyObject *)frame);
    int met = 0;
    while (f != NULL && calls != NULL &&
           PyList_GET_SIZE(calls) < MOST_CALLS) {
        PyCodeObject *code = PyFrame_GetCode(f);
        if (met && is_user(f, code))
            ia_list_add(&calls, Py_BuildValue("(OiO)", code->co_filename,
                                              PyFrame_GetLineNumber(f),
                                              code->co_qualname));
        met = met || runs(s, code);
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    Py_XDECREF(f);
    PyObject *tuple = calls != NULL ? PyList_AsTuple(calls) : NULL;
    Py_XDECREF(calls);
    if (tuple == NULL)
        PyErr_Clear();
    return tuple;
}

/* On Python 3.11 the collector may run where the calls are read, and with it
 * code of the user's that ends this watch. */
static statement *
new_entry(const statement *s, PyFrameObject *frame)
{
    uint32_t path = watch.path;
    statement new = {.file = Py_NewRef(s->file),
                     .function = Py_NewRef(s->function),
                     .line = s->line};
    new.calls = calls_around(&new, frame);
    statement *before = known(&new);
    if (watch.path != path || before != NULL ||
        watch.nseen == IA_MOST_STATEMENTS) {
        forget(&new);
        return watch.path != path ? NULL : before;
    }
    watch.seen[watch.nseen] = new;
    return &watch.seen[watch.nseen++];
}

/* What has grown since the event before is put down to the statement that ends
 * with this one.  Where another thread did it, its own next event came first: a
 * thread keeps the GIL from a statement's end to the next line's begin.  Of
 * what was not there at the event before, nobody knows. */
static void
compare(const statement *now, PyFrameObject *frame)
{
    ia_visit before = watch.last, after = look_at_holder();
    watch.held &= after.state == IA_PATH_INTACT;
    watch.last = after;
    if (before.state != IA_PATH_INTACT || after.state != IA_PATH_INTACT ||
        now->file == NULL || !is_growth(&before, &after))
        return;
    Py_ssize_t more = after.length - before.length;
    Py_ssize_t carried =
        more > 0 ? ia_carried((PyObject *)after.value, more) : 1;
    statement *s = known(now);
    if (s == NULL)
        s = new_entry(now, frame);
    if (s == NULL)
        return;
    s->times++;
    s->running = 0;
    s->items += more > 0 ? more : 1;
    s->carried += carried;
}

/* Where a thread is: at the user's frame that is next outwards from `frame`.
 * New references. */
static statement
position_at(PyFrameObject *frame)
{
    statement now = {0};
    PyFrameObject *f = (PyFrameObject *)Py_XNewRef((PyObject *)frame);
    while (f != NULL) {
        PyCodeObject *code = PyFrame_GetCode(f);
        int user = is_user(f, code);
        if (user) {
            now.file = Py_NewRef(code->co_filename);
            now.function = Py_NewRef(code->co_qualname);
            now.line = PyFrame_GetLineNumber(f);
        }
        Py_DECREF(code);
        if (user)
            break;
        PyFrameObject *back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    Py_XDECREF(f);
    return now;
}

/* A statement that begins again without growth in between grew something
 * else, or nothing. */
static void
note_run(const statement *now)
{
    statement *s = now->file ? known(now) : NULL;
    if (s == NULL)
        return;
    s->idle += (uint32_t)s->running;
    s->running = 1;
}

static position *
position_of(PyThreadState *thread)
{
    for (int i = 0; i < watch.nthreads; i++)
        if (watch.positions[i].thread == thread)
            return &watch.positions[i];
    return NULL;
}

/* This thread's, while a holder is watched. */
static position *
position_here(void)
{
    return watch.path == IA_NO_PATH ? NULL
                                    : position_of(PyThreadState_Get());
}

/* A thread that is traced and never comes to a boundary again is let go after
 * so many events: more than a step on a device has, fewer than one whose
 * kernels are Python. */
#define MOST_EVENTS 1000000

/* What grows from here on is put down to nobody: where its threads are is not
 * followed any more. */
static int
too_many_events(void)
{
    return watch.events > MOST_EVENTS;
}

static int
trace(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    int user = is_user(frame, code);
    (void)unused, (void)arg;
    Py_DECREF(code);
    watch.events++;
    if (too_many_events()) {
        PyEval_SetTrace(NULL, NULL);
        return 0;
    }
    if (!user || what == PyTrace_OPCODE || watch.path == IA_NO_PATH)
        return 0;
    PyFrameObject *back = what == PyTrace_CALL || what == PyTrace_RETURN
                              ? PyFrame_GetBack(frame)
                              : NULL;
    statement now = {0};
    position *at = position_here();
    if (at != NULL) {
        /* A statement that calls stands in the frame behind the call. */
        compare(&at->now, what == PyTrace_CALL ? back : frame);
        now = position_at(what == PyTrace_RETURN ? back : frame);
        at = position_here(); /* the collector may have ended the watch */
    }
    Py_XDECREF(back);
    if (at == NULL) {
        forget(&now);
        return 0;
    }
    forget(&at->now);
    at->now = now;
    if (what == PyTrace_LINE)
        note_run(&at->now);
    return 0;
}

static void
forget_positions(void)
{
    for (int i = 0; i < watch.nthreads; i++)
        forget(&watch.positions[i].now);
    watch.nthreads = 0;
}

/* Does every thread have this trace function, and none a profiler? */
static int
all_trace_by(Py_tracefunc function)
{
    PyThreadState *t =
        PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    for (; t != NULL; t = PyThreadState_Next(t))
        if (t->c_tracefunc != function || t->c_profilefunc != NULL)
            return 0;
    return 1;
}

/* 0 where there are too many. */
static int
note_threads(void)
{
    PyThreadState *t =
        PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    for (; t != NULL; t = PyThreadState_Next(t)) {
        if (watch.nthreads == MOST_THREADS)
            return 0;
        position *at = &watch.positions[watch.nthreads++];
        *at = (position){.thread = t};
        PyFrameObject *frame = PyThreadState_GetFrame(t);
        at->now = position_at(frame);
        Py_XDECREF(frame);
    }
    return 1;
}

static void
forget_seen(void)
{
    for (int i = 0; i < watch.nseen; i++)
        forget(&watch.seen[i]);
    watch.nseen = 0;
}

int
ia_statement_watch(uint32_t path, int by_graph)
{
    if (watch.path != IA_NO_PATH) /* of a look that was cut short */
        ia_statement_end();
    if (!all_trace_by(NULL))
        return 0;
    watch.path = path;
    watch.by_graph = by_graph;
    watch.chain.count = 0;
    watch.last = look_at_holder();
    PyObject *holder = (PyObject *)watch.last.value;
    if (watch.last.state != IA_PATH_INTACT ||
        (holder != NULL && ia_is_tee_block(holder))) {
        watch.path = IA_NO_PATH;
        return 0;
    }
    forget_seen();
    watch.events = 0;
    watch.held = 1;
    if (note_threads() && ia_trace_threads(NULL, trace) == 0)
        return 1;
    PyErr_Clear();
    watch.path = IA_NO_PATH;
    forget_positions();
    return 0;
}

/* Where somebody has set another tracer meanwhile, or a thread has begun that
 * nobody traced, the growth may be theirs: nothing was seen.  A trace function
 * that stays does nothing. */
void
ia_statement_end(void)
{
    PyThreadState *here = PyThreadState_Get();
    if (watch.path == IA_NO_PATH) {
        if (here->c_tracefunc == trace)
            PyEval_SetTrace(NULL, NULL);
        return;
    }
    position *at = position_of(here);
    /* What came after too many events belongs to nobody. */
    if (at != NULL && !too_many_events()) {
        PyFrameObject *frame = PyThreadState_GetFrame(here);
        compare(&at->now, frame);
        Py_XDECREF(frame);
    }
    watch.path = IA_NO_PATH;
    if (!too_many_events() && !all_trace_by(trace))
        forget_seen();
    if (ia_trace_threads(trace, NULL) < 0)
        PyErr_Clear();
    forget_positions();
    ia_ptrmap_free(&watch.is_user);
}

/* Where some of them bring what a tensor hangs on, it is those. */
static int
any_carries(void)
{
    for (int i = 0; i < watch.nseen; i++)
        if (watch.seen[i].carried > 0)
            return 1;
    return 0;
}

static PyObject *
calls_of(const statement *s)
{
    return s->calls != NULL ? Py_NewRef(s->calls) : PyTuple_New(0);
}

PyObject *
ia_statement_build(void)
{
    int running = watch.path != IA_NO_PATH;
    int ours = !running || (!too_many_events() && all_trace_by(trace));
    int carrying = any_carries();
    PyObject *list = PyList_New(0);
    for (int i = 0; list && ours && i < watch.nseen; i++) {
        const statement *s = &watch.seen[i];
        Py_ssize_t items = carrying ? s->carried : s->items;
        if (items > 0)
            ia_list_add(&list,
                        Py_BuildValue("(OiOInIN)", s->file, s->line,
                                      s->function, s->times, items, s->idle,
                                      calls_of(s)));
    }
    return list ? Py_BuildValue("(NN)", list, PyBool_FromLong(watch.held))
                : NULL;
}
