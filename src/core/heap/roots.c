/* Where every retaining path starts. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/read.h"
#include "../ledger/frames.h"
#include "own.h"
#include "passing.h"
#include "roots.h"
#include "turns.h"
#include "waiting.h"

#include <stdlib.h>
#include <string.h>

void
ia_roots_free(ia_roots *roots)
{
    for (ia_crowd *crowd = roots->crowds, *next; crowd; crowd = next) {
        next = crowd->next;
        free(crowd->members);
        free(crowd);
    }
    free(roots->items);
    ia_ptrmap_free(&roots->turns);
    *roots = (ia_roots){0};
}

ia_root *
ia_roots_add(ia_roots *roots, ia_root_kind kind, uintptr_t ref, int user,
             const char *name)
{
    if (IA_ROOM(roots->items, roots->capacity, roots->count + 1) < 0)
        return NULL;
    ia_root *root = &roots->items[roots->count++];
    *root = (ia_root){.kind = kind, .ref = ref, .user = user};
    strncpy(root->name, name, sizeof root->name - 1);
    return root;
}

/* -- modules ------------------------------------------------------------- */

static int
is_user_module(PyObject *dict, const char *name)
{
    if (strcmp(name, "__main__") == 0)
        return 1;
    PyObject *file = ia_dict_value(dict, "__file__");
    if (file == NULL || !PyUnicode_CheckExact(file))
        return 0;
    char buf[IA_FILE_NAME];
    return !ia_file_is_library(ia_text(file, buf, sizeof buf));
}

/* Whose a module is. */
typedef enum { MAIN, USER, LIBRARY } owner;

typedef struct {
    PyObject *name;
    PyObject *module;
    PyObject *dict; /* NULL for an object that poses as a module */
    owner of;
} listed;

/* The modules, gone through once, in the order of sys.modules; references are
 * borrowed. */
typedef struct {
    listed *items; /* owned */
    uint32_t count, capacity;
} modules;

static int
list_module(modules *list, PyObject *key, PyObject *module)
{
    const char *name = ia_utf8(key);
    int proper = PyModule_Check(module);
    PyObject *dict = proper ? PyModule_GetDict(module) : NULL;
    if (ia_module_is_own(name) ||
        (proper ? dict == NULL : !ia_is_gc(module)))
        return 0;
    if (IA_ROOM(list->items, list->capacity, (uint64_t)list->count + 1) < 0)
        return -1;
    owner of = strcmp(name, "__main__") == 0          ? MAIN
               : proper && is_user_module(dict, name) ? USER
                                                      : LIBRARY;
    list->items[list->count++] = (listed){key, module, dict, of};
    return 0;
}

static int
list_modules(modules *list)
{
    PyObject *all = ia_interp_modules(), *name, *module;
    Py_ssize_t pos = 0;
    if (all == NULL || !PyDict_Check(all))
        return 0;
    while (PyDict_Next(all, &pos, &name, &module))
        if (list_module(list, name, module) < 0)
            return -1;
    return 0;
}

static int
add_module(ia_roots *roots, const listed *m)
{
    char buf[IA_ROOT_NAME];
    const char *name = ia_text(m->name, buf, sizeof buf);
    /* A lazy module or an object that poses as one. */
    if (m->dict == NULL)
        return ia_roots_add(roots, IA_ROOT_STATE, (uintptr_t)m->module, 0,
                            name) ? 0 : -1;
    /* __mp_main__ is multiprocessing's second name of it. */
    if (m->of != MAIN && roots->count > 0 &&
        roots->items[0].ref == (uintptr_t)m->dict)
        return 0;
    ia_root *root = ia_roots_add(roots, IA_ROOT_MODULE, (uintptr_t)m->dict,
                                 m->of != LIBRARY, name);
    if (root == NULL)
        return -1;
    root->threads = m->of == LIBRARY && strcmp(name, "threading") == 0;
    if (m->of == MAIN)
        ia_notebook_find(&roots->notebook, m->dict);
    if (m->of == LIBRARY &&
        !ia_roots_add(roots, IA_ROOT_STATE, (uintptr_t)m->module, 0, name))
        return -1;
    return 0;
}

static int
add_modules(ia_roots *roots, const modules *list, owner of)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].of == of && add_module(roots, &list->items[i]) < 0)
            return -1;
    return 0;
}

/* -- frames -------------------------------------------------------------- */

static int
add_frame(ia_roots *roots, ia_frame *frame, int user)
{
    PyCodeObject *code = ia_frame_code(frame);
    char buf[IA_FILE_NAME], function[IA_ROOT_NAME], name[IA_ROOT_NAME];
    const char *file = ia_text(code->co_filename, buf, sizeof buf);
    if (ia_file_is_own(file) || ia_file_is_library(file) == user)
        return 0;
    snprintf(name, sizeof name, "%s()",
             ia_text(code->co_qualname, function, sizeof function));
    ia_root *root = ia_roots_add(roots, IA_ROOT_FRAME,
                                 (uintptr_t)frame | IA_TAG_FRAME, user, name);
    if (root == NULL)
        return -1;
    root->turn =
        ia_ptrmap_get(&roots->turns, (uintptr_t)frame) != IA_PTRMAP_NONE;
    root->late = root->turn || ia_passing_is_noted(code);
    return 0;
}

static int
add_waiting_frames(ia_roots *roots, ia_frame *f)
{
    ia_frame *calls[IA_MOST_WAITING];
    for (int i = ia_waiting_calls(f, calls); i-- > 0;)
        if (add_frame(roots, calls[i], 1) < 0)
            return -1;
    return 0;
}

/* The outermost first: of two paths of one length, `main().server.cache` is
 * the same at every look, `Server.reply().self.cache` is not. */
static int
add_frames(ia_roots *roots, PyThreadState *tstate, int user)
{
    uint32_t first = roots->count;
    ia_frame *f = ia_frame_top(tstate);
    for (; f != NULL; f = ia_frame_back(f))
        if (add_frame(roots, f, user) < 0 ||
            (user && add_waiting_frames(roots, f) < 0))
            return -1;
    for (uint32_t i = first, j = roots->count; i + 1 < j; i++, j--) {
        ia_root swapped = roots->items[i];
        roots->items[i] = roots->items[j - 1];
        roots->items[j - 1] = swapped;
    }
    return 0;
}

static PyThreadState *
oldest_thread(void)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    PyThreadState *t = PyInterpreterState_ThreadHead(interp), *next;
    while ((next = PyThreadState_Next(t)) != NULL)
        t = next;
    return t;
}

static int
add_ended_frames(ia_roots *roots, int user)
{
    ia_frame *f;
    for (uint32_t i = 0; (f = ia_frame_ended(i)) != NULL; i++)
        if (add_frame(roots, f, user) < 0)
            return -1;
    return 0;
}

/* The program's, then the main thread first: what waits there for a worker
 * outlives that one's calls. */
static int
add_all_frames(ia_roots *roots, int user)
{
    if (add_ended_frames(roots, user) < 0)
        return -1;
    for (PyThreadState *t = oldest_thread(); t != NULL; t = t->prev)
        if (add_frames(roots, t, user) < 0)
            return -1;
    return 0;
}

/* -- threads and C-level holders ----------------------------------------- */

static int
add_object(ia_roots *roots, ia_root_kind kind, PyObject *op, const char *name)
{
    if (op == NULL || op == Py_None)
        return 0;
    return ia_roots_add(roots, kind, (uintptr_t)op, 0, name) ? 0 : -1;
}

static int
add_thread(ia_roots *roots, PyThreadState *t)
{
    _PyErr_StackItem *e = t->exc_info;
    int bad = add_object(roots, IA_ROOT_THREAD, t->dict, "<thread-local>") |
              add_object(roots, IA_ROOT_THREAD, t->context, "<context>") |
              add_object(roots, IA_ROOT_THREAD, t->c_profileobj,
                         "<profile function>") |
              add_object(roots, IA_ROOT_THREAD, t->c_traceobj,
                         "<trace function>");
    for (; e != NULL; e = e->previous_item)
        bad |= add_object(roots, IA_ROOT_THREAD, e->exc_value,
                          "<exception being handled>");
    return bad ? -1 : 0;
}

static int
add_holders(ia_roots *roots)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    PyThreadState *t = PyInterpreterState_ThreadHead(interp);
    for (; t != NULL; t = PyThreadState_Next(t))
        if (add_thread(roots, t) < 0)
            return -1;
    return add_object(roots, IA_ROOT_INTERPRETER,
                      PyInterpreterState_GetDict(interp), "<interpreter>");
}

int
ia_roots_collect(ia_roots *roots)
{
    modules list = {0};
    int bad = ia_turns_find(&roots->turns) < 0 || list_modules(&list) < 0 ||
              add_modules(roots, &list, MAIN) < 0 ||
              add_all_frames(roots, 1) < 0 ||
              add_modules(roots, &list, USER) < 0 ||
              add_all_frames(roots, 0) < 0 ||
              add_modules(roots, &list, LIBRARY) < 0 ||
              add_holders(roots) < 0;
    free(list.items);
    return bad ? -1 : 0;
}

/* A module is a root of its own: `torch.nn` must not be reached through the
 * `torch` that __main__ imported, nor a module's globals through one of its
 * functions. */
static void
hide_modules(ia_walk *w)
{
    PyObject *modules = ia_interp_modules(), *name, *module;
    Py_ssize_t pos = 0;
    ia_walk_hide(w, modules);
    if (modules == NULL || !PyDict_Check(modules))
        return;
    while (PyDict_Next(modules, &pos, &name, &module)) {
        ia_walk_hide(w, module);
        if (PyModule_Check(module))
            ia_walk_hide(w, PyModule_GetDict(module));
    }
}

/* A call's variables are its own, and not those of the object that shows its
 * frame, to whatever keeps that. */
static void
hide_ended_frames(ia_walk *w)
{
    ia_frame *f;
    for (uint32_t i = 0; (f = ia_frame_ended(i)) != NULL; i++)
        ia_walk_hide(w, ia_frame_object(f));
}

/* The same of a coroutine, to whatever comes back to it. */
static void
hide_coroutines(ia_walk *w)
{
    for (uint32_t i = 0; i < w->roots->count; i++) {
        const ia_root *root = &w->roots->items[i];
        PyObject *op = root->kind == IA_ROOT_FRAME
                           ? ia_frame_generator(
                                 (ia_frame *)IA_ADDRESS(root->ref))
                           : NULL;
        if (op != NULL && PyCoro_CheckExact(op))
            ia_walk_hide(w, op);
    }
}

/* In which order they are asked; OWN is the user's but for calls that come and
 * go.  What a thread was given is the thread's rather than that of a library's
 * call on it, of which each thread has one of its own. */
typedef enum { OWN, PASSING, THREADS, CALLS, LIBRARIES } rank;

static rank
rank_of(const ia_root *root)
{
    if (root->user)
        return root->late ? PASSING : OWN;
    if (root->threads)
        return THREADS;
    return root->kind == IA_ROOT_MODULE || root->kind == IA_ROOT_STATE ||
                   root->kind == IA_ROOT_INTERPRETER
               ? LIBRARIES
               : CALLS;
}

static void
walk_from(ia_walk *w, rank wanted)
{
    /* A second pass asks what is reached, and not by which name. */
    w->puts_off = w->marks == NULL;
    for (uint32_t i = 0; i < w->roots->count && i < w->rooted_roots; i++)
        if (rank_of(&w->roots->items[i]) == wanted)
            ia_walk_seed(w, w->roots->items[i].ref, i);
    ia_walk_run(w);
    ia_walk_run_put_off(w);
    w->puts_off = 0;
}

/* Goes on to the classes that wait and that no library's module led to: made
 * as the program runs, they are somebody else's. */
static void
follow_classes(ia_walk *w)
{
    for (uint32_t i = 0; i < w->classes.count; i++)
        ia_walk_follow(w, (uintptr_t)w->classes.waiting[i].type,
                       w->classes.waiting[i].parent);
    w->classes.count = 0;
    ia_walk_run(w);
}

void
ia_walk_from_libraries(ia_walk *w)
{
    if (w->marks == NULL)
        w->storages->near_entries = w->count;
    if (w->crossings != NULL)
        ia_crossings_begin(w->crossings, w->seen, w->count);
    w->libraries = 1;
    w->classes_wait = 0;
    walk_from(w, LIBRARIES);
    w->libraries = 0;
    if (w->crossings != NULL)
        ia_crossings_end(w->crossings, w->count);
    follow_classes(w);
}

static void
walk_from_others(ia_walk *w)
{
    hide_modules(w);
    hide_ended_frames(w);
    hide_coroutines(w);
    if (w->tally != NULL)
        ia_weigh_own(w->tally, w);
    w->classes_wait = 1;
    for (rank one = OWN; one < LIBRARIES; one++)
        walk_from(w, one);
    w->classes_wait = w->roots->near;
}

void
ia_walk_from_roots(ia_walk *w)
{
    walk_from_others(w);
    if (!w->roots->near)
        ia_walk_from_libraries(w);
}

/* Whether all that is cut was met before the libraries, or after them. */
static int
cuts_nothing_of_libraries(const ia_walk *w, const ia_crossings *known)
{
    for (uint32_t i = 0; i < w->ncuts; i++)
        if (w->cuts[i].entry >= known->first &&
            w->cuts[i].entry < known->end)
            return 0;
    return 1;
}

/* Takes as reached what the first pass met in libraries. */
static void
keep_libraries(ia_walk *w, const ia_walk *first, const ia_crossings *known)
{
    for (uint32_t i = known->first; i < known->end; i++)
        ia_walk_hide(w, (void *)IA_ADDRESS(first->queue[i].ref));
    ia_walk_keep(w, known->first, known->end);
}

void
ia_walk_again(ia_walk *w, const ia_walk *first)
{
    const ia_crossings *known = first->crossings;
    if (!ia_crossings_are_known(known) ||
        !cuts_nothing_of_libraries(w, known)) {
        ia_walk_from_roots(w);
        return;
    }
    keep_libraries(w, first, known);
    walk_from_others(w);
    w->libraries = 1;
    for (uint32_t i = 0; i < known->count; i++)
        ia_walk_follow(w, known->refs[i], IA_NO_ENTRY);
    ia_walk_run(w);
    w->libraries = 0;
    follow_classes(w);
}
