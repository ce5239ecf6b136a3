/* The statement that grows a holder. */

#include "../base/compat.h"
#include "statement.h"

#include "../base/build.h"
#include "../ledger/ledger.h"
#include "../ledger/libraries.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject *file, *function; /* owned */
    int line;
    uint32_t times;
    uint32_t idle; /* times that it ran and the holder did not grow */
    int running;   /* it ran, and the holder has not grown by it yet */
    Py_ssize_t items;
} statement;

static struct {
    uint32_t path; /* IA_NO_PATH: nothing is watched */
    PyThreadState *thread;
    ia_visit last;
    statement now; /* where the program is, as far as it was seen */
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
    *s = (statement){0};
}

static int
is_user(PyCodeObject *code)
{
    uint32_t known = ia_ptrmap_get(&watch.is_user, (uintptr_t)code);
    if (known != IA_PTRMAP_NONE)
        return (int)known;
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    if (file == NULL)
        PyErr_Clear();
    ia_ledger_lock();
    int user = file != NULL && !ia_library_has(file);
    ia_ledger_unlock();
    ia_ptrmap_set(&watch.is_user, (uintptr_t)code, (uint32_t)user);
    return user;
}

static int
is_growth(const ia_visit *before, const ia_visit *after)
{
    if (before->length >= 0)
        return after->length > before->length;
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

static statement *
entry_for(const statement *s)
{
    statement *before = known(s);
    if (before != NULL)
        return before;
    if (watch.nseen == IA_MOST_STATEMENTS)
        return NULL;
    statement *new = &watch.seen[watch.nseen++];
    *new = (statement){.file = Py_NewRef(s->file),
                       .function = Py_NewRef(s->function),
                       .line = s->line};
    return new;
}

static void
compare(void)
{
    ia_visit after = ia_visit_path(watch.path);
    if (after.state != IA_PATH_INTACT)
        return;
    if (watch.last.state == IA_PATH_INTACT && watch.now.file != NULL &&
        is_growth(&watch.last, &after)) {
        statement *s = entry_for(&watch.now);
        if (s != NULL) {
            s->times++;
            s->running = 0;
            s->items += after.length >= 0 ? after.length - watch.last.length
                                          : 1;
        }
    }
    watch.last = after;
}

/* The program is at the user's frame that is next outwards from `frame`. */
static void
note_position(PyFrameObject *frame)
{
    PyFrameObject *f = (PyFrameObject *)Py_XNewRef((PyObject *)frame);
    while (f != NULL) {
        PyCodeObject *code = PyFrame_GetCode(f);
        int user = is_user(code);
        if (user) {
            forget(&watch.now);
            watch.now.file = Py_NewRef(code->co_filename);
            watch.now.function = Py_NewRef(code->co_qualname);
            watch.now.line = PyFrame_GetLineNumber(f);
        }
        Py_DECREF(code);
        if (user)
            break;
        PyFrameObject *back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    Py_XDECREF(f);
}

/* A statement that begins again without growth in between grew something
 * else, or nothing. */
static void
note_run(void)
{
    statement *s = watch.now.file ? known(&watch.now) : NULL;
    if (s == NULL)
        return;
    s->idle += (uint32_t)s->running;
    s->running = 1;
}

/* A thread that is traced and never comes to a boundary again is let go after
 * so many events: more than any step that was seen has. */
#define MOST_EVENTS 1000000

static int
trace(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    int user = is_user(code);
    (void)unused, (void)arg;
    Py_DECREF(code);
    if (++watch.events > MOST_EVENTS)
        PyEval_SetTrace(NULL, NULL);
    if (!user || what == PyTrace_OPCODE || watch.path == IA_NO_PATH)
        return 0;
    compare();
    if (what == PyTrace_RETURN) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        note_position(back);
        Py_XDECREF(back);
    } else {
        note_position(frame);
    }
    if (what == PyTrace_LINE)
        note_run();
    return 0;
}

int
ia_statement_watch(uint32_t path)
{
    PyThreadState *here = PyThreadState_Get();
    if (watch.path != IA_NO_PATH || here->c_tracefunc != NULL ||
        here->c_profilefunc != NULL)
        return 0;
    ia_visit now = ia_visit_path(path);
    if (now.state != IA_PATH_INTACT)
        return 0;
    for (int i = 0; i < watch.nseen; i++)
        forget(&watch.seen[i]);
    watch.nseen = 0;
    watch.events = 0;
    watch.last = now;
    watch.thread = here;
    watch.path = path;
    PyFrameObject *frame = PyThreadState_GetFrame(here);
    note_position(frame);
    Py_XDECREF(frame);
    PyEval_SetTrace(trace, NULL);
    if (here->c_tracefunc == trace)
        return 1;
    watch.path = IA_NO_PATH;
    return 0;
}

/* On another thread the trace function stays until that thread comes here; it
 * does nothing meanwhile. */
void
ia_statement_end(void)
{
    PyThreadState *here = PyThreadState_Get();
    if (here->c_tracefunc == trace)
        PyEval_SetTrace(NULL, NULL);
    if (watch.path == IA_NO_PATH || watch.thread != here)
        return;
    compare();
    watch.path = IA_NO_PATH;
    forget(&watch.now);
    ia_ptrmap_free(&watch.is_user);
}

PyObject *
ia_statement_build(void)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < watch.nseen; i++) {
        const statement *s = &watch.seen[i];
        ia_list_add(&list,
                    Py_BuildValue("(OiOInI)", s->file, s->line, s->function,
                                  s->times, s->items, s->idle));
    }
    return list;
}
